"""Values (REWARDS 8): what an agent stands for and what it never does, from a signed file that is read once."""

from .file import BUILTIN as BUILTIN
from .file import in_force as in_force
from .file import read_values as read_values
from .model import Guardrail as Guardrail
from .model import Values as Values
from .signing import sign as sign
from .signing import signature_of as signature_of
