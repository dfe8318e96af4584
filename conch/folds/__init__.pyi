"""What every fold shares: the order of an agent's acts, the deduplication of fingerprints, fast model construction."""

from .dedupe import Digests as Digests
from .dedupe import act_fingerprint as act_fingerprint
from .dedupe import holds as holds
from .dedupe import new_information as new_information
from .dedupe import with_new as with_new
from .models import evolve as evolve
from .models import json_of as json_of
from .models import made_of as made_of
from .models import maker as maker
from .models import valid as valid
from .order import MOST_LEAP as MOST_LEAP
from .order import is_new as is_new
