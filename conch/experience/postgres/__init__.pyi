from .store import PostgresReader as PostgresReader
from .store import PostgresStore as PostgresStore
from .store import SharedPostgresStore as SharedPostgresStore
