"""What the commands print with --json stays as it is: every document against the one that was recorded."""

from __future__ import annotations

import getpass
import json
import platform
import shutil
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.cli.main import make_app
from conch.consumer.group.lag import report_position
from conch.consumer.runtime.dead_letters import dead_letter, publish_dead_letter
from conch.consumer.spec import ConsumerSpec
from conch.errors import ConchError
from conch.home import Home
from conch.memory import MEMORY_FILE, LongTermMemory, default_embedder
from conch_schemas import ActionTaken, Check, Goal, GoalSet, consequence_id, control_subject, source_of, subject_filter
from tests.memories import made
from tests.recorded import compare, settled, validated

if TYPE_CHECKING:
    from tests.cli.conftest import InProgress, Life, Publish


UID = "6f1ed002-ab59-5c6e-8f5c-2a0ba2c3a1f0"
RECORDED = Path(__file__).with_name("recorded.jsonl")
RULE = '''from conch import rule


@rule(version="3", range=(-1, 1), weight=0.1)
def tone(action):
    """How it sounds."""
    return None if action.cycle == 1 else action.cycle / 10
'''
IN_A_RUN = (
    "status",
    "consumer list",
    "consumer lag",
    "dlq list",
    "dlq show {letter}",
    "goal list",
    "approve list",
    "goal add x --file a.txt",
    "goal drop {goal}",
    "tell hello",
    "pause",
    "resume",
    "reward list",
    "reward show execution",
    "reward weights",
    "bus info",
)
ALONE = (
    "init",
    "init new",
    "status",
    "cycle list",
    "cycle list --limit 1",
    "cycle show 1",
    "cycle show 2",
    "need list",
    "need history",
    "mark list",
    "mark show 3",
    "mark verify",
    "reward list",
    "reward show format",
    "reward show exploration",
    "reward compare format execution",
    "reward test {rule}",
    "reward new calm calm",
    "reward backfill tone --rules {rule}",
    "reward show tone",
    "reward compare tone needs",
    "reward score 1 --name joy --value 0.5 --why nice",
    "reward weights",
    "reward weights --set format=0.4 needs=0.1",
    "config validate",
    "values show",
    "values new values.yaml",
    "values sign values.yaml --key my.key",
    "metrics rules --out rules.yaml",
    "tell hello",
    "goal add x --tests true",
    "dlq drop {letter}",
    "consumer reset reward",
    "consumer forget needs --yes",
    "bus info",
    "bus bench --events 3",
    "bus snapshot bus.tar",
    "bus tail --after 0 --kind action.taken",
    "bus tail --after 0 --kind consumer.failed",
    "review list --reviewer ada",
    "review next --reviewer ada",
    "review stats",
    "memory list",
    "memory search tide",
    "memory show {memory}",
    "memory consolidate",
    "memory forget {memory}",
)
OF_THIS_MACHINE = (
    "config show",
    "metrics rules",
    "bus permissions",
    "bus restore {snapshot}",
    "doctor",
)
"""Their documents differ from one machine or version to the next: only their models are held against them."""
CHECK: Check = {"kind": "tests", "command": "true"}  # type: ignore[assignment]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose agent has a known UUID, so that all ids that are derived from it are known."""
    made = Home(tmp_path / "home")
    made.make()
    made.agent_dir("echo").mkdir(parents=True)
    (made.agent_dir("echo") / "agentuid").write_text(f"{UID}\n")
    return made


async def _printed(words: str, home: Home, printed: Callable[[], str]) -> str:
    try:
        await make_app().run_async([*words.split(), "--json", "--home", str(home.path)], exit_on_error=False)
    except (ConchError, SystemExit) as error:
        return f"{validated(printed())}{type(error).__name__}"
    return validated(printed())


async def test_the_documents_of_the_commands_stay_as_they_are(
    home: Home,
    filled: Life,
    in_progress: InProgress,
    publish: Publish,
    printed: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The same keys in the same order, the same numbers and nulls; with a run in progress and without one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("conch.memory.default.is_installed", lambda _: False)
    default_embedder.cache_clear()
    (tmp_path / "tone.py").write_text(RULE)
    names = {str(tmp_path): "TMP", sys.executable: "PYTHON", getpass.getuser(): "USER", platform.node(): "NODE"}
    goal = Goal(id="read", statement="Read it", check=CHECK)
    fact = GoalSet(
        id=consequence_id(UID, "test", "1", GoalSet), source=source_of("echo", UID), agent="echo", goal=goal, by="home"
    )
    told: dict[str, str] = {}

    async def respond(subject: str, data: bytes) -> bytes:
        return json.dumps({"ok": True, **ANSWERS.get(subject.rpartition(".")[2], {})}).encode()

    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(in_progress())
        await stack.enter_async_context(bus.serve(control_subject("echo", "*"), respond))
        acts = [filled.act(cycle) for cycle in (0, 1)]
        await publish(bus, filled.weights(), *acts, *filled.scored[0], *filled.scored[1], fact)
        act = await anext(aiter(bus.read([subject_filter(ActionTaken)])))
        letter = dead_letter(ConsumerSpec("reward", "1", (ActionTaken,), lambda _: None), act, "it broke\x1b[2J", 3)
        await publish_dead_letter(bus, letter)
        await report_position(bus, "reward", [ActionTaken], 1)
        await report_position(bus, "needs", [ActionTaken], 3)
        given = {"letter": letter.id, "goal": "read", "rule": str(tmp_path / "tone.py")}
        names[letter.id] = "LETTER"
        given["memory"] = _remembered(home)
        for words in IN_A_RUN:
            told[f"in a run: {words}"] = settled(await _printed(words.format(**given), home, printed), names)
    for place, words in enumerate(ALONE):
        told[f"{place}: {words}"] = settled(await _printed(words.format(**given), home, printed), names)

    default_embedder.cache_clear()
    compare(RECORDED, told)
    given["snapshot"] = str(tmp_path / "here" / "bus.tar")
    shutil.rmtree(home.bus / "jetstream")
    for words in OF_THIS_MACHINE:
        assert await _printed(words.format(**given), home, printed) != "", words


def _remembered(home: Home) -> str:
    """Give the agent some memories; the id of one of them."""
    some = [
        made("The tide at noon is 3 metres high", number=1),
        made("The tide at noon is 4 metres high", number=2),
        made("Barnacles live on the wet rock", "fact", 3),
        made("On the wet rock live barnacles", "fact", 4),
    ]
    store = LongTermMemory(home.agent_dir("echo") / MEMORY_FILE)
    store.add(some)
    store.close()
    return some[0].id


ANSWERS: dict[str, dict[str, Any]] = {
    "status": {
        "agent": "echo",
        "state": "paused",
        "why": "by request",
        "cycle": 2,
        "needs": {"curiosity": 0.65, "excellence": 0.25},
        "goals": [{"id": "read", "statement": "Read it", "best": None}],
        "waiting": ["hello"],
        "waiting_count": 1,
        "tokens_in_hour": 12,
        "policy": "p1",
    },
    "say": {"id": "m1"},
    "goal": {"goal": "read"},
}
"""What an agent in a run replies, by the verb."""
