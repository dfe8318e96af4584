"""What every fold shares: the order of an agent's acts, the deduplication of fingerprints, fast model construction."""

from .dedupe import NO_TARGET as NO_TARGET
from .dedupe import Digests as Digests
from .dedupe import act_fingerprint as act_fingerprint
from .dedupe import holds as holds
from .dedupe import new_information as new_information
from .dedupe import repetition_fingerprint as repetition_fingerprint
from .dedupe import target_digest as target_digest
from .dedupe import with_new as with_new
from .effect import PAID_APPENDS as PAID_APPENDS
from .effect import ToolResult as ToolResult
from .effect import brings_information as brings_information
from .effect import moves_goal as moves_goal
from .effect import rests_rightly as rests_rightly
from .effect import tool_result as tool_result
from .effect import uses_allowance as uses_allowance
from .effect import work_of as work_of
from .models import evolve as evolve
from .models import json_of as json_of
from .models import made_of as made_of
from .models import maker as maker
from .models import valid as valid
from .order import MOST_LEAP as MOST_LEAP
from .order import is_new as is_new
