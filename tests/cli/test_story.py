"""`conch cycle show` of what the whole reward is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.cli import cycle
from conch.cli.common import CommonOptions
from conch.config import Settings
from conch.consumer import ServiceContext, bind
from conch.experience import SqliteReader
from conch.rewards import weight_set
from conch.views.line import cycle_line, signed
from conch_schemas import Action, Decoding, Event, Outcome
from conch_services.curiosity.consumer import curiosity as curiosity_consumer
from conch_services.needs.consumer import needs as needs_consumer
from conch_services.reward.consumer import reward as reward_consumer

if TYPE_CHECKING:
    from tests.cli.conftest import Life


Kept = Callable[..., None]
Printed = Callable[[], str]
WRITE = Action(kind="TOOL", valid=True, tool="filesystem", args={"operation": "write", "path": "a", "content": "b"})


@pytest.fixture
def failing(life: Life, kept: Kept) -> Life:
    """Two cycles that try the same change and fail, as the consumers of a run score them."""
    context = ServiceContext(Settings(), life.home.path)
    kept(life.weights().model_copy(update={"parts": weight_set((), context.settings.rewards)}))
    reward, needs, curiosity = (
        bind(reward_consumer, context),
        bind(needs_consumer, context),
        bind(curiosity_consumer, context),
    )
    levels, history = needs.initial(), curiosity.initial()
    for number in range(2):
        act = life.act(number, action=WRITE, outcome=Outcome(status="error", error="no room", output=_NOTHING))
        levels, changed = needs.handle(levels, act)
        history, measured = curiosity.handle(history, act)
        facts: list[Event] = [act, reward.handle(act), changed, measured]
        kept(*facts, life.mark(act), life.judged(act, facts[1:]))
    return life


_NOTHING = {"text": "", "length": 0, "sha256": "0" * 64}


def test_a_cycle_shows_what_bears_on_its_total(failing: Life, common: CommonOptions, printed: Printed) -> None:
    """Scores with a weight, those without one, the penalty and the gate as lines of the sum, and the principles."""
    cycle.show(1, common=common)

    text = printed()
    assert "  format                 +0.500 × 0.300  reward: The reply is valid." in text
    assert "  repetition             -0.100          curiosity: Done 2 times with the same result" in text
    assert "  diversity      not_applicable          curiosity: Diversity is told of 50 acts; there are 2." in text
    assert "  ethical                +0.500          reward: filesystem.write can change things, and failed." in text
    assert "  taken off for repetition -0.1000  " in text
    assert "\nprinciples, 7.70 of 8.70, good, compliant\n" in text
    assert "\n  ethical                 0.500\n" in text
    assert "\n  tasteful                    –  nothing to judge by\n" in text
    assert text.index("\n  exploration              +0.") < text.index("\n  taken off for repetition -0.1000")


def test_a_cycle_shows_how_its_reply_was_decoded(
    life: Life, kept: Kept, common: CommonOptions, printed: Printed
) -> None:
    """Engine, constraint, sampling, probabilities and the keys of prompt and state in a line; none for an old act."""
    decoding = Decoding(
        engine="llama.cpp", model="m", temperature=0.7, seed=5, logprob=-3.25, tokens=12, constraint="grammar",
        propensity=0.5, prompt_sha256="a" * 64, state_key="b" * 16,
    )  # fmt: skip
    new, old = life.act(0, decoding=decoding), life.act(1)
    for act in (new, old):
        kept(act, *life.scores(act))

    cycle.show(0, common=common)
    assert (
        "  decoded  llama.cpp, held to a grammar, temperature 0.7, seed 5, 12 tokens, log probability -3.25, "
        f"propensity 0.5, prompt {'a' * 12}, state {'b' * 16}\n"
    ) in printed()
    cycle.show(1, common=common)
    assert "  decoded  " not in printed()


def test_a_closed_gate_is_a_line_and_its_total_is_no_negative_nothing(
    failing: Life, common: CommonOptions, printed: Printed
) -> None:
    """The first failed change is brought to 0 by the gate; no list and no line says -0.000."""
    cycle.show(0, common=common)
    shown = printed()
    cycle.list_(common=common)
    listed = printed()
    with SqliteReader(failing.home.path / "store.db") as store:
        line = cycle_line(store.cycles.get("echo", 0))

    assert "\n  held to 0 by ethical " in shown
    assert "ethical 0.5 is below 0.6: the total is at most 0" in shown
    assert "\n  sum                      +0.0000" in shown
    for text in (shown, listed, line):
        assert "-0.000" not in text
    assert "+0.000" in listed
    assert "+0.000" in line


def test_a_component_cannot_clear_the_screen(
    life: Life, kept: Kept, common: CommonOptions, printed: Printed, hostile: str
) -> None:
    """A score's component, scorer and words are made safe, each on one line."""
    act = life.act(0)
    reward, *others = life.scores(act)
    alien = reward.scores[0].model_copy(update={"component": hostile, "scorer": hostile, "explanation": hostile})
    kept(life.weights(), act, reward, *others, replace_scores(reward, alien))

    cycle.show(0, common=common)

    text = printed()
    assert "\x1b" not in text
    assert "\u2028" not in text
    assert [line for line in text.split("\n") if line.strip().startswith("sum")] == [
        "  sum                      +0.2750  ████████████████"
    ]


def replace_scores(reward: Any, *scores: Any) -> Any:
    """A scorer that is no part of the weight set says something too."""
    return reward.model_copy(update={"id": "alien", "scorer": "alien", "scores": scores})


@given(value=st.floats(-2.0, 2.0), digits=st.integers(0, 6))
def test_a_figure_says_its_sign_and_never_a_negative_nothing(value: float, digits: int) -> None:
    """What rounds to nothing is a plus, whatever its sign was; anything else is what Python writes."""
    text = signed(value, digits)

    assert text[0] in "+-"
    assert float(text) == pytest.approx(value, abs=0.5 * 10**-digits + 1e-9)
    assert float(text) != 0.0 or text[0] == "+"
