"""asyncio tasks that have an owner: what starts them, waits for them, races them and ends them."""

from .errors import innermost as innermost
from .errors import ungrouped as ungrouped
from .owned import OwnedTasks as OwnedTasks
from .owned import background as background
from .owned import cancel_and_wait as cancel_and_wait
from .owned import uninterrupted as uninterrupted
from .together import concurrently as concurrently
from .together import race as race
