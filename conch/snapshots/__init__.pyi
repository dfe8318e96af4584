"""Decisions as they were asked for, each with the workspace as it was: what a fork begins with."""

from .decision import GoalThen as GoalThen
from .decision import RecordedDecision as RecordedDecision
from .keeper import SnapshotKeeper as SnapshotKeeper
from .shelf import SNAPSHOTS as SNAPSHOTS
from .shelf import SnapshotShelf as SnapshotShelf
from .tree import FoundEntry as FoundEntry
from .tree import TooLargeError as TooLargeError
from .tree import look as look
