"""Data sets: experiences as rows that trainers take, each of which leads back to its acts."""

from .lookup import find_row as find_row
from .lookup import prune_snapshots as prune_snapshots
from .lookup import snapshots_in as snapshots_in
from .lookup import trained_states as trained_states
from .lookup import verify_files as verify_files
from .manifest import MANIFEST as MANIFEST
from .manifest import FileDigest as FileDigest
from .manifest import Manifest as Manifest
from .manifest import RowFigures as RowFigures
from .redact import redactor as redactor
from .row import FORMATS as FORMATS
from .row import PAIRED as PAIRED
from .row import Format as Format
from .row import LeftOut as LeftOut
from .row import Lineage as Lineage
from .row import Origin as Origin
from .row import Row as Row
from .row import Split as Split
from .row import Tier as Tier
from .row import make_row as make_row
from .rows import rows_of as rows_of
from .selection import Selection as Selection
from .snapshot import read_manifest as read_manifest
from .snapshot import write_snapshot as write_snapshot
from .survey import Survey as Survey
from .survey import survey_of as survey_of
