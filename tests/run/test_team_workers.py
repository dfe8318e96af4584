"""A role in a process of its own: a real run, a real nats-server, workers that are killed and started again."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import yaml

from tests.run.servers import nats

if TYPE_CHECKING:
    from pathlib import Path

    from tests.run.conftest import House
