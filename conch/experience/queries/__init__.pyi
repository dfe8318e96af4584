"""What the experience store can be asked: columns for charts, rows for lists, acts to score anew, removed cycles."""

from .rows import BUILTIN_SCORERS as BUILTIN_SCORERS
from .rows import PHASES as PHASES
