"""What was trained on is looked up in the data sets themselves, not in the plan alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conch.data import Selection, make_row, write_snapshot
from conch.errors import CheckError
from conch.rounds.making.held_out import held_out_cycles
from conch.rounds.making.plan import data_folder, round_folder
from conch.rounds.making.prepare import HELD_OUT
from conch.rounds.making.provenance import refuse_leaked

if TYPE_CHECKING:
    from tests.rounds.conftest import Trained


async def test_a_data_set_with_a_held_out_state_is_refused_whatever_the_plan_says(trained: Trained) -> None:
    """The rows of train are compared with the states of the held-out decisions; those of the plan's own data are none
    of them."""
    for _ in range(30):
        await trained.act()
    plan = trained.plan(trained.log())
    held_out = held_out_cycles(plan.agent, round_folder(trained.home, plan.round) / HELD_OUT)
    assert held_out
    refuse_leaked(trained.home, plan, held_out)
    decoding = held_out[0].act.decoding
    assert decoding is not None
    said = [{"role": "user", "content": "What now?"}], [{"role": "assistant", "content": "TOOL: git()"}]
    row = make_row(
        "sft",
        {"prompt": said[0], "completion": said[1]},  # type: ignore[dict-item]
        agent=plan.agent,
        action_ids=(),
        state_key=decoding.state_key,
        prompt_hash="",
        split="train",
    )
    place, manifest = write_snapshot([row], data_folder(trained.home), "sft", Selection(), name="leaked")
    leaked = plan.model_copy(update={"snapshot_name": place.name, "snapshot": manifest.digest})

    with pytest.raises(CheckError, match=r"trains on 1 of the \d+ held-out states"):
        refuse_leaked(trained.home, leaked, held_out)
    with pytest.raises(CheckError, match="the round is of"):
        refuse_leaked(trained.home, plan.model_copy(update={"snapshot_name": place.name}), held_out)
