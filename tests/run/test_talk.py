"""Talking with a running agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.run.conftest import House


def test_a_person_who_waits_is_given_the_answer(house: House) -> None:
    """`tell --wait` prints what the agent says to this very message; without an answer in time it says so."""
    house.begin(interval=0.1).recorded(1)

    answer = house.conch("tell", "What did you find?", "--wait", "30")
    house.conch("pause")
    told = json.loads(house.conch("tell", "And now?", "--wait", "0.1", "--json"))

    assert "language model" in answer
    assert told["running"] is True
    assert told["answer"] is None
