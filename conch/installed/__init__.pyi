"""What installed packages register by entry points, and its trial in a process of its own."""

from .points import BrokenPackage as BrokenPackage
from .points import entry_points_of as entry_points_of
from .trial import TrialError as TrialError
from .trial import answer_of_trial as answer_of_trial
from .trial import error_words as error_words
from .trial import tried as tried
