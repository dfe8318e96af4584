"""The faults table: what tests/faults does a few times, done many times and counted."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))  # the load, the proxy and the power cut are those of tests/faults
