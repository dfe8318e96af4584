"""What the API answers stays as it is: every answer against the one that was recorded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from conch.consumer.group.lag import report_position
from conch.consumer.runtime.dead_letters import dead_letter, publish_dead_letter
from conch.consumer.spec import ConsumerSpec
from conch.memory import MEMORY_FILE, LongTermMemory
from conch_schemas import ActionTaken, control_subject, subject_filter
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.memories import made
from tests.recorded import compare, settled, validated

RECORDED = Path(__file__).with_name("recorded.jsonl")
ASKED = (
    "/agents",
    "/cycles?limit=2",
    "/cycles?limit=1&kind=REFLECT",
    f"/cycles/{CYCLES}",
    "/cycles/13",
    "/cycles/4711",
    "/cycles.jsonl?first=59",
    "/status",
    "/rewards?limit=50",
    "/needs",
    "/needs/history?limit=2",
    "/goals",
    "/approvals",
    "/marks?limit=2",
    "/marks/verify",
    "/consumers",
    "/consumers/lag",
    "/metrics",
    "/dlq",
    "/memories",
    "/memories?text=tide",
    "/memories/{memory}",
    "/reviews?format=kto&reviewer=ada&limit=2",
    "/reviews/next?format=dpo&reviewer=ada",
    "/reviews/stats",
    "/lineage",
)
CHECK = {"kind": "file", "path": "a.txt"}
DONE: tuple[tuple[str, Any], ...] = (
    ("/agents/echo/pause", None),
    ("/agents/echo/resume", None),
    ("/agents/echo/tell", {"text": "hello"}),
    ("/agents/echo/goal", {"statement": "Be there", "check": CHECK}),
    ("/agents/echo/goal/drop", {"goal": "read"}),
    ("/cycles/7/approve", {"reason": "well done"}),
    ("/cycles/8/reject", {"reason": "it was not"}),
    ("/dlq/{letter}/drop", None),
)


async def test_the_answers_of_the_api_stay_as_they_are(dashboard: Dashboard) -> None:
    """The same keys in the same order, the same numbers and nulls; beside a run and without one."""
    names = {str(dashboard.seeded.home.path): "HOME"}
    act = await anext(aiter(dashboard.bus.read([subject_filter(ActionTaken)])))
    letter = dead_letter(ConsumerSpec("rule-joy", "1", (ActionTaken,), lambda _: None), act, "it broke", 3)
    await publish_dead_letter(dashboard.bus, letter)
    await report_position(dashboard.bus, "reward", [ActionTaken], 4)
    names[letter.id] = "LETTER"
    one = made("The tide at noon is 3 metres high", number=1)
    store = LongTermMemory(dashboard.seeded.home.agent_dir("echo") / MEMORY_FILE)
    store.add([one, made("Barnacles live on the wet rock", "fact", 2)])
    store.close()
    told = {path: await _got(dashboard, path.format(memory=one.id), names) for path in ASKED}

    async def respond(subject: str, data: bytes) -> bytes:
        return json.dumps({"ok": True, "id": "m1"}).encode()

    with dashboard.seeded.home.owned():
        run = {"pid": os.getpid(), "agents": ["echo"], "metrics": "http://127.0.0.1:9/metrics"}
        dashboard.seeded.home.run_file.write_text(json.dumps(run))
        async with dashboard.bus.serve(control_subject("echo", "*"), respond):
            for path, body in DONE:
                answer = await dashboard.client.post(f"/api/v1{path.format(letter=letter.id)}", json=body)
                told[f"POST {path}"] = settled(validated(answer.text), names)
            told["in a run: /metrics"] = await _got(dashboard, "/metrics", names)

    compare(RECORDED, told)
    await _got(dashboard, "/settings", names)


async def _got(dashboard: Dashboard, path: str, names: dict[str, str]) -> str:
    return settled(validated((await dashboard.client.get(f"/api/v1{path}")).text), names)
