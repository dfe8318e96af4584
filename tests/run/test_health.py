"""`conch consume NAME --health`: a container's question whether the process lives, and whether it is ready."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from tests.run.servers import Server

if TYPE_CHECKING:
    from tests.run.conftest import House


def test_a_consumer_alone_tells_of_its_health(house: House, tmp_path: Path) -> None:
    """Ready while it reads and the bus is there; once the bus is gone it lives and is not ready."""
    server = Server(tmp_path / "nats", "-js", "-sd", str(tmp_path / "store"))
    alone = house.start("consume", "needs", "--health", "127.0.0.1:0", CONCH_BUS__URL=server.url)
    alone.until(lambda: len(alone.lines) >= 2, "where it tells")
    [address] = re.findall(r"health at (http://127\.0\.0\.1:\d+)/healthz", alone.lines[0])

    def told(path: str) -> tuple[int, str]:
        answer = httpx2.get(address + path)
        return answer.status_code, answer.text

    alone.until(lambda: told("/readyz") == (200, "ready\n"), "that it is ready")
    assert told("/healthz") == (200, "ok\n")
    assert told("/metrics") == (404, "there are /healthz and /readyz\n")
    assert httpx2.get(f"{address}/healthz", headers={"host": "evil.example"}).status_code == 421

    server.close()

    alone.until(lambda: told("/readyz") == (503, "not ready\n"), "that it is not ready")
    assert told("/healthz") == (200, "ok\n")


def test_a_port_that_is_taken_ends_it_before_it_reads(house: House) -> None:
    """One sentence, exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        sentence = house.refused("consume", "needs", "--health", f"127.0.0.1:{port}", status=1)

    assert sentence == f"port {port} of 127.0.0.1 is taken: name another one (--health)"


def test_the_exporter_alone_says_where_it_serves(house: House) -> None:
    """`conch metrics serve` on the home's own bus: figures, and health beside them; Ctrl-C ends it in order."""
    house.conch("init")
    alone = house.start("metrics", "serve", "--health", "127.0.0.1:0", CONCH_METRICS__PORT="0")
    alone.until(lambda: any(line.startswith("metrics http") for line in alone.lines), "its address")
    [metrics] = [line.removeprefix("metrics ") for line in alone.lines if line.startswith("metrics http")]
    [ready] = re.findall(r"http://127\.0\.0\.1:\d+/readyz", "\n".join(alone.lines))

    assert "conch_build_info" in httpx2.get(metrics).text
    assert httpx2.get(ready).status_code == 200
    alone.signal(signal.SIGINT)
    assert alone.ended() == 0, alone.told()


def test_a_plugin_alone_publishes_its_metrics_beside_its_health(house: House) -> None:
    """`conch consume NAME --health`: no exporter is there, so it is scraped itself."""
    house.run("--cycles", "1", "--script", house.script("DO_NOTHING: resting"))
    (house.directory / "rules.py").write_text(
        "from conch import consumer\nfrom conch.metrics import counter\nfrom conch_schemas import ActionTaken\n\n"
        'acts = counter("acts", "Acts.", "kind")\n\n\n'
        "@consumer(ActionTaken)\ndef counts(action):\n    acts(action.action.kind).inc()\n"
    )
    rules = str(house.directory / "rules.py")
    alone = house.start("consume", "counts", "--rules", rules, "--health", "127.0.0.1:0")
    alone.until(lambda: any(line.startswith("health at") for line in alone.lines), "where it tells")
    [address] = re.findall(r"health at (http://127\.0\.0\.1:\d+)/healthz", "\n".join(alone.lines))
    shown = 'conch_plugin_acts_total{kind="DO_NOTHING"} 1.0\n'

    alone.until(lambda: shown in httpx2.get(f"{address}/metrics").text, "its metrics")
    alone.signal(signal.SIGINT)
    assert alone.ended() == 0, alone.told()
