"""The bus over NATS JetStream, on an ordinary nats-py connection."""

from .bus import JetStreamBus as JetStreamBus
from .checks import check_server as check_server
from .connection import Connection as Connection
from .names import BUCKET_STREAM as BUCKET_STREAM
from .names import EPOCH as EPOCH
from .names import OBJECT_STREAM as OBJECT_STREAM
from .names import OBJECT_SUBJECTS as OBJECT_SUBJECTS
from .names import STREAM as STREAM
from .names import key_subject as key_subject
from .transfer import StreamDescription as StreamDescription
from .transfer import described as described
from .transfer import pack as pack
from .transfer import unpack as unpack
from .trial import fsync_seconds as fsync_seconds
from .trial import measure as measure
