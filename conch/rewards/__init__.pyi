"""The rules of the reward, the constitution, the weight set and the total: pure functions of values."""

from .agreement import Agreement as Agreement
from .agreement import agreement as agreement
from .conduct import changes_something as changes_something
from .conduct import constitution_scores as constitution_scores
from .conduct import principles_of as principles_of
from .constitution import NO_EVIDENCE as NO_EVIDENCE
from .constitution import PRINCIPLES as PRINCIPLES
from .constitution import Alignment as Alignment
from .constitution import PrincipleScore as PrincipleScore
from .constitution import TurnResult as TurnResult
from .constitution import alignment as alignment
from .constitution import band as band
from .constitution import constitutional_reward as constitutional_reward
from .constitution import generative_score as generative_score
from .constitution import score_principles as score_principles
from .rules import VERSION as VERSION
from .rules import builtin_scores as builtin_scores
from .rules import execution_reward as execution_reward
from .rules import format_reward as format_reward
from .rules import goal_reward as goal_reward
from .total import Total as Total
from .total import total as total
from .total import total_reward as total_reward
from .weights import absent_weights as absent_weights
from .weights import weight_set as weight_set
from .weights import weights_version as weights_version
