"""What people do to an agent from outside: tell it something, give it goals, score what it did, decide on
its acts, settle its letters."""

from .approvals import decide_act as decide_act
from .approvals import waiting_acts as waiting_acts
from .ask import ask as ask
from .ask import ask_all as ask_all
from .ask import handed_over as handed_over
from .ask import told_by_person as told_by_person
from .chat import AgentWorks as AgentWorks
from .chat import AnswerDraft as AnswerDraft
from .chat import AnswerGiven as AnswerGiven
from .chat import AnswerMarked as AnswerMarked
from .chat import AnswerRewarded as AnswerRewarded
from .chat import ApprovalAsked as ApprovalAsked
from .chat import ApprovalSettled as ApprovalSettled
from .chat import ChatSession as ChatSession
from .chat import ChatStep as ChatStep
from .chat import MessageTaken as MessageTaken
from .chat import ToolUsed as ToolUsed
from .dead_letters import retried as retried
from .goals import active_goals as active_goals
from .goals import check_of as check_of
from .goals import goal_of as goal_of
from .human_score import APPROVAL as APPROVAL
from .human_score import LONGEST as LONGEST
from .human_score import is_said as is_said
from .human_score import next_number as next_number
from .human_score import publish_score as publish_score
from .human_score import refuse_score as refuse_score
from .human_score import said_score as said_score
from .human_score import score_range as score_range
from .memories import forget_memories as forget_memories
from .ratings import publish_rating as publish_rating
from .ratings import rated as rated
from .walks import Walks as Walks
