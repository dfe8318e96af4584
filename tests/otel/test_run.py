"""A whole run beside a collector."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conch_schemas import trace_of
from tests.otel.conftest import Collector, attributes

CONCH = Path(sys.executable).with_name("conch")


def test_a_run_sends_its_cycles(tmp_path: Path, collector: Collector) -> None:
    """`OTEL_EXPORTER_OTLP_ENDPOINT=… conch run`: each of its cycles is a trace with the five scores, the last
    one too."""
    script = tmp_path / "script.txt"
    script.write_text('TOOL: filesystem(operation="list", path=".")\nDO_NOTHING: resting\n')
    command = [str(CONCH), "run", "--home", str(tmp_path / "home"), "--script", str(script), "--interval", "0"]
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.address, "CONCH_MIND__KIND": "scripted"}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    wholes = [span for span in collector.spans if span.name == "invoke_agent echo"]
    assert [attributes(span)["conch.outcome"] for span in wholes] == ["success", "none"]
    assert [span.name for span in collector.spans if span.name.startswith("execute")] == ["execute_tool filesystem"]
    for span in wholes:
        assert span.trace_id.hex() == trace_of(attributes(span)["conch.action.id"])
        scored = [attributes(one) for one in collector.events if one.span_id == span.span_id]
        names = {one["gen_ai.evaluation.name"] for one in scored}
        assert {"format", "execution", "needs", "goal", "exploration"} <= names
