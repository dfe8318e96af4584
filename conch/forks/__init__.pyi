"""Forks: other decisions for a recorded prompt, each tried and scored in a copy of the workspace as it was."""

from .minds import ForkMinds as ForkMinds
from .minds import fork_minds as fork_minds
from .recorded import PromptSource as PromptSource
from .recorded import RecordedCycle as RecordedCycle
from .recorded import recorded_prompt as recorded_prompt
from .run import Fork as Fork
from .run import ForkRequest as ForkRequest
from .score import VERSION as VERSION
