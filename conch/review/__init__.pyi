"""Review of rows of training data by people: which row next, what was decided, which rows may be used."""

from .agreement import Kappa as Kappa
from .agreement import RuleAgreement as RuleAgreement
from .agreement import cohen_kappa as cohen_kappa
from .agreement import rule_agreement as rule_agreement
from .corrected import corrected_rows as corrected_rows
from .decide import ReviewVerdict as ReviewVerdict
from .decide import RowHistory as RowHistory
from .decide import decisions_now as decisions_now
from .decide import history_of as history_of
from .decide import publish_review as publish_review
from .decide import reviewer_named as reviewer_named
from .decisions import ReviewDecisions as ReviewDecisions
from .policy import ReviewPolicy as ReviewPolicy
from .policy import reviewed as reviewed
from .pool import REVIEWED_FORMATS as REVIEWED_FORMATS
from .pool import ReviewPool as ReviewPool
from .pool import corrections_of as corrections_of
from .pool import review_pool as review_pool
from .pool import row_of as row_of
from .queue import SEED as SEED
from .queue import QueuedRow as QueuedRow
from .queue import in_order as in_order
from .scores import scores_beside as scores_beside
from .sides import Sides as Sides
from .sides import sides_of as sides_of
from .signals import RowSignals as RowSignals
