from .store import MemoryStore as MemoryStore
from .store import SqliteReader as SqliteReader
from .store import SqliteStore as SqliteStore
