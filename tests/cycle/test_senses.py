"""Senses: what sensors said last, remembered, told to the mind, and held against what a thought says of it."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.config.model import MOST_SENSES
from conch.cycle.grounding.readings import readings
from conch.cycle.grounding.sensors import in_words, perceived
from conch.cycle.state.memory import AgentMemory, remember
from conch.minds import SensorValue
from conch_schemas import Claim, SenseMeasured, ThoughtGrounded, encode, subject_of

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start


SENSES = (
    SensorValue("kitchen_temperature", 21.5, "°C", 3.0),
    SensorValue("front_door", "open", "", 70.0),
    SensorValue("motion", True, "", 1.0),
    SensorValue("pressure", 1013.0, "hPa", 3.0),
    SensorValue("cellar", 5.0, "°C", 7200.0, stale=True),
)


def verdicts(thought: str) -> list[str]:
    return [claim.verdict for claim in readings(thought, SENSES)]


@pytest.mark.parametrize(
    ("thought", "found"),
    [
        ("The kitchen_temperature is 21.5 °C.", "verified"),
        ("Kitchen temperature: 22", "verified"),  # as the thought rounds it
        ("kitchen_temperature is 21.8", "refuted"),
        ("kitchen_temperature is about 23.4", "verified"),
        ("kitchen_temperature is above 20", "verified"),
        ("kitchen_temperature is not above 20", "refuted"),
        ("kitchen_temperature is no more than 21.4", "refuted"),
        ("kitchen_temperature is between 20 and 22", "verified"),
        ("kitchen_temperature is −21.5", "refuted"),
        ("kitchen_temperature is 70.7 °F", "unknown"),
        ("The pressure is 1,013 hPa", "verified"),
        ("The pressure is 1030", "refuted"),
        ("front_door is open", "verified"),
        ("The front door is closed.", "refuted"),
        ("front_door isn't closed", "verified"),
        ('front_door reads "ajar"', "refuted"),
        ("front_door is in the hall", "unknown"),
        ("motion is on", "verified"),
        ("motion is false", "refuted"),
    ],
)
def test_what_is_said_of_a_sense_is_held_against_its_last_word(thought: str, found: str) -> None:
    """A number within half its last digit or 1 % (10 % after *about*), a comparison, a word: so, not so, or open."""
    assert verdicts(thought) == [found]


@pytest.mark.parametrize(
    "thought",
    [
        "If kitchen_temperature is 25, I open the window.",
        "kitchen_temperature should be 19",
        "kitchen_temperature was 19 an hour ago",
        "Is kitchen_temperature 19? Let me see.",
        "cellar is 5",
    ],
)
def test_wishes_questions_the_past_and_a_stale_sense_stay_open(thought: str) -> None:
    """Nothing is refuted that was not said of now, nor by a sense that is too old to tell."""
    assert verdicts(thought) == ["unknown"]


@pytest.mark.parametrize(
    "thought",
    [
        "kitchen_temperature matters to me",
        "kitchen_temperature is 3 s old",
        "kitchen_temperature is 2 degrees higher than outside",
        "kitchen_temperature rose from 20 to 21.5",
        "kitchen_temperature, of which I have 7 notes",
        "my kitchen_temperatures are 3",
    ],
)
def test_a_number_beside_a_sense_is_no_reading_of_it(thought: str) -> None:
    """A difference, an age, a count: no claim is made of them."""
    assert verdicts(thought) == []


def test_the_evidence_names_value_unit_and_age() -> None:
    """A reader of the claim sees what the sensor said and how long ago; of a kept value that it is older."""
    [claim] = readings("kitchen_temperature is 30", SENSES)

    assert claim.evidence == "sense kitchen_temperature: 21.5 °C, 3 s old"
    assert (
        in_words(SensorValue("x", "a\x1b\n", "", 130.0, kept=True))
        == r'x: "a\u001b\n", heard 2 min ago, measured before'
    )
    assert in_words(SENSES[4]) == "cellar: 5 °C, 2 h old, too old to tell"


@given(st.lists(st.sampled_from(["kitchen_temperature", " is ", "not ", "1,", "9" * 20, "between ", "°F", "\n", "é"])))
def test_no_thought_of_a_sense_breaks_the_grounding(parts: list[str]) -> None:
    """Whatever is said of a sense, a claim that an event can carry comes of it, or none."""
    for claim in readings("".join(parts), SENSES):
        assert isinstance(claim, Claim)
        assert len(claim.claim) <= 300


def test_a_long_thought_of_many_senses_takes_no_long_time() -> None:
    """8,000 characters that all but name one of 64 senses are read in a moment, not in minutes."""
    many = [SensorValue(f"k{'a' * 40}_{place}", 1.0, "", 1.0) for place in range(MOST_SENSES)]
    began = time.process_time()

    assert not list(readings((("k" + "a" * 40 + "_ ") * 200)[:8000], many))
    assert time.process_time() - began < 1.0


def measured(sense: str = "door", value: Any = "open", *, place: int = 0, **more: Any) -> SenseMeasured:
    return SenseMeasured(
        id=f"{sense}-{place}", source="conch/echo/-", agent="echo", sense=sense, value=value,
        received=more.pop("received", datetime.now(UTC)), **more,
    )  # fmt: skip


def test_the_agent_remembers_the_last_word_of_so_many_senses() -> None:
    """The last fact of a sense counts, and beyond MOST_SENSES the one that was silent longest is forgotten."""
    memory = AgentMemory()
    for place in range(MOST_SENSES + 1):
        memory = remember(memory, measured(f"sense_{place}", place, place=place))
        memory = remember(memory, measured("sense_0", place, place=place))

    assert len(memory.senses) == MOST_SENSES
    assert memory.senses["sense_0"].value == MOST_SENSES
    assert "sense_1" not in memory.senses
    assert AgentMemory.model_validate_json(memory.model_dump_json()) == memory


def test_a_sense_that_nobody_configured_goes_stale_too() -> None:
    """A publisher of one's own may send senses; ten minutes old, they tell nothing any more."""
    memory = remember(AgentMemory(), measured(received=datetime.now(UTC) - timedelta(seconds=601)))

    [sense] = perceived(memory.senses, {}, time.time())

    assert sense.stale


async def test_what_a_sensor_says_reaches_the_mind_and_its_thought(life: Life, start: Start, until: Until) -> None:
    """The mind is told value, unit and age; its thought is grounded on them; a restart forgets none of it."""
    life.configured(edge={"bridge": "mqtt://x", "senses": {"kitchen": {"topic": "k", "max_age": 3600}}})
    life.mind.thinks = lambda situation: f"kitchen is 30. I saw {len(situation.senses)}."
    event = measured("kitchen", 21.5, unit="°C")
    running = await start()

    await running.put(event)
    await until(
        lambda: any("kitchen: 21.5 °C, " in said.content for prompt in life.mind.asked for said in prompt.messages)
    )
    await until(lambda: any(fact.claims for fact in life.facts(ThoughtGrounded)))
    grounded = next(fact for fact in life.facts(ThoughtGrounded) if fact.claims)
    again = await life.agent(running.bus)

    assert [(claim.about, claim.verdict) for claim in grounded.claims] == [("sense", "refuted")]
    assert again.memory.senses["kitchen"].value == 21.5


def test_every_value_travels_as_itself() -> None:
    """A truth stays a truth, a number a number, a text a text; a text of more than 1 KiB is refused."""
    for value in (True, 1.0, 0, "1", "ü" * 512):
        event = measured(value=value)
        read = SenseMeasured.model_validate_json(encode(event))
        assert (type(read.value), read.value) == (type(event.value), value)

    with pytest.raises(ValueError, match="1024 bytes"):
        measured(value="ü" * 513)
    assert subject_of(event) == "conch.v1.echo.sense.measured"
