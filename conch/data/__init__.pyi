"""Data sets: experiences as rows that trainers take, each of which leads back to its acts."""

from .row import FORMATS as FORMATS
from .row import PAIRED as PAIRED
from .row import Format as Format
from .row import LeftOut as LeftOut
from .row import Origin as Origin
from .row import Row as Row
from .row import Split as Split
from .row import Tier as Tier
from .rows import rows_of as rows_of
from .selection import Selection as Selection
