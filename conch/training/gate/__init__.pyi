"""The gate of an adapter, and of a generation of the embedded mind: statistics of held-out states, pure."""

from .bound import lower_bound as lower_bound
from .bound import needed as needed
from .bound import spent_alpha as spent_alpha
from .decide import GateVerdict as GateVerdict
from .decide import decide_gate as decide_gate
from .off_policy import ActChance as ActChance
from .off_policy import LoggedChoice as LoggedChoice
from .off_policy import OffPolicyLimits as OffPolicyLimits
from .off_policy import OffPolicyVerdict as OffPolicyVerdict
from .off_policy import ValueEstimate as ValueEstimate
from .off_policy import compare_off_policy as compare_off_policy
from .off_policy import estimate_value as estimate_value
from .sample import CheckedCondition as CheckedCondition
from .sample import GateFigures as GateFigures
from .sample import GateLimits as GateLimits
from .sample import GateReply as GateReply
from .sample import GateSample as GateSample
