"""The paid changes of an agent, folded from its acts."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from conch.cycle.state.work import GIVEN_BACK, MOST_FILES, WorkLedger
from conch.folds import uses_allowance
from conch_schemas import ActionTaken, EffectKind, GoalCheck, MeasuredEffect
from tests.rules.conftest import make_act

START = 20


@dataclass(frozen=True)
class Deed:
    """An act: what it brought about, whether it reached the goal, the file that it added lines to."""

    kind: EffectKind
    reaches: bool
    file: str | None

    def taken(self, cycle: int, ledger: WorkLedger) -> ActionTaken:
        """The act, as the agent would record it after `ledger`."""
        check = GoalCheck(goal="g", statement="g", outcome="achieved", measure=1.0, best=0.0)
        kind: EffectKind = "progress" if self.reaches else self.kind
        work = ledger.before(1, START, () if self.file is None else (self.file,))
        effect = MeasuredEffect(kind=kind, work=work)
        return make_act(cycle, effect=effect, goals=(check,) if self.reaches else ())


DEEDS = st.builds(
    Deed,
    kind=st.sampled_from(["none", "information", "change", "change", "change"]),
    reaches=st.sampled_from([False] * 5 + [True]),
    file=st.sampled_from([None, "a", "b"]),
)


@given(deeds=st.lists(DEEDS, min_size=40, max_size=120))
def test_paid_changes_never_outnumber_the_start_and_what_goals_gave_back(deeds: list[Deed]) -> None:
    """A reached goal gives back at most 4, and no more than was paid since it was set; adding to one file is paid twice
    between two moves of a goal."""
    ledger, paid, reached, given, since, added = WorkLedger(), 0, 0, 0, 0, {"a": 0, "b": 0}
    for cycle, deed in enumerate(deeds):
        act = deed.taken(cycle, ledger)
        pays = uses_allowance(act)
        before, ledger = ledger, ledger.acted(act, {"g": since})
        paid += pays
        if deed.reaches:
            own = sum(earlier >= since for earlier in before.spent)
            back = len(before.spent) - len(ledger.spent)
            assert back == min(own, GIVEN_BACK)
            reached, given, since, added = reached + 1, given + back, cycle + 1, {"a": 0, "b": 0}
        elif deed.file is not None:
            added[deed.file] += pays
        assert paid == len(ledger.spent) + given
        assert paid <= START + GIVEN_BACK * reached
        assert max(added.values()) <= 2


def test_a_ledger_read_from_its_json_is_the_same() -> None:
    """Also the order of the files, by which the oldest is dropped."""
    ledger = WorkLedger()
    for cycle in range(MOST_FILES + 5):
        act = Deed("change", False, f"{cycle % (MOST_FILES + 1)}").taken(cycle, ledger)
        ledger = ledger.acted(act, {})

    assert len(ledger.appended) == MOST_FILES
    assert list(ledger.appended)[-1] == "3"
    assert WorkLedger.model_validate_json(ledger.model_dump_json()) == ledger
    assert list(WorkLedger.model_validate_json(ledger.model_dump_json()).appended) == list(ledger.appended)


def test_an_act_of_a_former_version_uses_up_nothing() -> None:
    """It says nothing of goals, so it leaves the ledger as it is; so does one with an unknown outcome."""
    ledger = WorkLedger(spent=(1, 2), appended={"a": 2})

    assert ledger.acted(make_act(3, effect=MeasuredEffect(kind="change")), {}) == ledger
    assert ledger.acted(make_act(3, status="unknown"), {}) == ledger
