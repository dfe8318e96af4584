"""Many acts at once to a rule's process: the same scores as one by one, whatever the rule does on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conch.consumer.plugins import pipeline
from conch.consumer.plugins.pipeline import PipelinedRuleWorker
from conch.rules import RuleInfo
from conch_schemas import ActionTaken, Cut, Outcome, Score

if TYPE_CHECKING:
    from tests.conftest import MakeAct


HEAD = "from conch import rule\nimport os, time\n@rule()\ndef tested(action):\n    "


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., PipelinedRuleWorker]:
    """The worker of a rule with this body."""

    def worker(body: str, *, timeout: float = 10.0, memory_mib: int = 512) -> PipelinedRuleWorker:
        path = tmp_path / "rules.py"
        path.write_text(HEAD + body.replace("\n", "\n    ") + "\n")
        return PipelinedRuleWorker(
            RuleInfo("tested", "7", origin=str(path), doc="What it is."), timeout=timeout, memory_mib=memory_mib
        )

    return worker


async def all_of(one: PipelinedRuleWorker, acts: Sequence[ActionTaken]) -> list[Score]:
    """Their scores, each told with its own act."""
    told: list[tuple[ActionTaken, Score]] = []
    await one.score_all(acts, lambda *each: told.append(each))
    assert [act for act, _ in told] == list(acts)
    return [score for _, score in told]


async def test_many_at_once_are_scored_as_one_by_one(make: Callable[..., PipelinedRuleWorker], act: MakeAct) -> None:
    """Values, errors, and what ended the process: each act has its own score, and nobody else's."""
    one = make(
        "n = action.cycle\n"
        "if n == 70: os._exit(5)\n"
        "if n == 71: raise ValueError('odd')\n"
        "return None if n == 72 else n / 100"
    )
    acts = [act(cycle) for cycle in range(1, 100)]

    together = await all_of(one, acts)
    singly = [await one.score(each) for each in acts]
    await one.close()

    assert together == singly
    assert [score.status for score in together[69:72]] == ["error", "error", "not_applicable"]
    assert "status 5" in together[69].explanation


async def test_a_process_that_is_begun_anew_on_the_way_is_so_for_many_too(
    make: Callable[..., PipelinedRuleWorker], act: MakeAct
) -> None:
    """A rule that leaves threads behind: the act that has too many is an error, the next ones are scored anew."""
    body = "import threading\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\nreturn 0.5"
    one = make(body, memory_mib=16_384)  # each thread reserves much and takes little

    scores = await all_of(one, [act(cycle) for cycle in range(1, 101)])
    await one.close()

    assert [score.status for score in scores].count("error") == 1
    assert scores[64].status == "error"


async def test_the_time_of_each_act_is_its_own(make: Callable[..., PipelinedRuleWorker], act: MakeAct) -> None:
    """Ten that take long are in time where each of them is; the one that never ends is late, and no other."""
    one = make("time.sleep(0.15)\nwhile action.cycle == 12: pass\nreturn 0.5", timeout=0.6)

    scores = await all_of(one, [act(cycle) for cycle in range(1, 15)])
    await one.close()

    assert [score.status for score in scores] == ["scored"] * 11 + ["timeout"] + ["scored"] * 2


async def test_large_acts_do_not_pile_up(
    make: Callable[..., PipelinedRuleWorker], act: MakeAct, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more of them is on its way than the room there is; one larger than that goes alone."""
    monkeypatch.setattr(pipeline, "AHEAD_BYTES", 150_000)
    one = make("return len(action.outcome.output.text) / 1_000_000")
    sent: list[int] = []
    send, answer = one._send, one.judge
    most = 0

    def sending(action: Any) -> int:
        nonlocal most
        sent.append(send(action))
        most = max(most, len(sent))
        return sent[-1]

    def answered(found: Any) -> Any:
        sent.pop(0)
        return answer(found)

    monkeypatch.setattr(one, "_send", sending)
    monkeypatch.setattr(one, "judge", answered)
    outcome = Outcome(status="success", output=Cut(text="x" * 100_000, length=100_000, sha256="0" * 64))
    scores = await all_of(one, [act(cycle, outcome=outcome) for cycle in range(20)])
    await one.close()

    assert [score.value for score in scores] == [0.1] * 20
    assert most == 2


async def test_a_file_that_cannot_be_loaded_is_an_error_of_each(
    make: Callable[..., PipelinedRuleWorker], act: MakeAct
) -> None:
    """Nothing hangs; every act says why."""
    one = make("pass")
    Path(one._rule.origin).write_text("raise RuntimeError('now broken')\n")

    scores = await all_of(one, [act(cycle) for cycle in (1, 2, 3)])

    assert ["now broken" in score.explanation for score in scores] == [True] * 3
