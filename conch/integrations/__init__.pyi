"""What the integrations with trainers share: a trainer's reply as the act that a rule scores."""

from .offline import act_of as act_of
from .offline import asking as asking
from .offline import name_of as name_of
from .offline import trajectory_of as trajectory_of
