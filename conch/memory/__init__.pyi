"""What an agent remembers for months: short texts with their source acts, ranked by relevance, recency, importance."""

from .consolidate import COMPARED as COMPARED
from .consolidate import Consolidation as Consolidation
from .default import default_embedder as default_embedder
from .derive import REMEMBERED_KINDS as REMEMBERED_KINDS
from .derive import memories_of as memories_of
from .embed import Embedder as Embedder
from .file import MEMORY_FILE as MEMORY_FILE
from .merge import Contradiction as Contradiction
from .merge import contradiction_of as contradiction_of
from .merge import is_duplicate as is_duplicate
from .models import Memory as Memory
from .models import MemoryKind as MemoryKind
from .models import RecalledMemory as RecalledMemory
from .models import SourceAct as SourceAct
from .models import StoredMemory as StoredMemory
from .models import memory_id as memory_id
from .scoring import importance_of as importance_of
from .scoring import score as score
from .scoring import worth as worth
from .store import LongTermMemory as LongTermMemory
