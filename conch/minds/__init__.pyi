"""Minds: what thinks and decides. Each gives raw text that goes through the one parser."""

from .endpoint import ChatEndpoint as ChatEndpoint
from .endpoint import ConnectionPool as ConnectionPool
from .endpoint import StreamedReply as StreamedReply
from .endpoint import TransientError as TransientError
from .endpoint import direct as direct
from .factory import MindFactory as MindFactory
from .memory import LearningProgress as LearningProgress
from .memory import learnt as learnt
from .protocol import ActReward as ActReward
from .protocol import Completion as Completion
from .protocol import Lesson as Lesson
from .protocol import Mind as Mind
from .protocol import MindWrapper as MindWrapper
from .protocol import Prompt as Prompt
from .protocol import PromptPart as PromptPart
from .protocol import Purpose as Purpose
from .protocol import RecentOutcome as RecentOutcome
from .protocol import ReplyProgress as ReplyProgress
from .protocol import RewardLine as RewardLine
from .protocol import ScriptEnded as ScriptEnded
from .protocol import SensorValue as SensorValue
from .protocol import Situation as Situation
from .scripted import ScriptedMind as ScriptedMind
from .scripted import ScriptLine as ScriptLine
from .several import MindChain as MindChain
from .several import StepMinds as StepMinds
