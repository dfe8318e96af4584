"""The sentences at the head of the pages of conversations, memory, review and training."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from conch_services.dashboard.learning import PolicyReward
from conch_services.dashboard.reviewing import ReviewCandidate
from conch_services.dashboard.story.verdicts import learning_verdict, review_verdict, rows_verdict, talk_verdict
from conch_services.dashboard.stream.sessions import SessionTurn
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import parsed
from tests.dashboard.test_memory import remember


def test_a_conversation_says_what_people_made_of_it() -> None:
    """Answers, the last word on each, the mean reward; nothing is said of what was never rated."""
    good = SessionTurn("1", "Hello", "Hi", 1, "a", [("unsatisfied", "short"), ("satisfied", "")])
    wrong = SessionTurn("2", "And?", "No", 2, "b", [("corrected", "Yes")])
    open_ = SessionTurn("3", "Still?")

    said = talk_verdict("echo", {"s": [good, wrong], "t": [open_]}, [0.25, 0.75])

    assert said.headline == "2 answers in 2 conversations."
    assert said.details == (
        "You rated 2: 1 right, 1 corrected. Mean reward of the last 2 answers: +0.50. 1 message without an answer yet."
    )
    assert talk_verdict("echo", {}, []).headline == "Nobody has spoken with echo yet."
    assert talk_verdict("echo", {"s": [SessionTurn("1", "a", "b")]}, []).details == "You have rated none."


def test_what_waits_for_a_judgement_is_counted() -> None:
    """One, several, none; of cycles and of rows."""
    waits = [ReviewCandidate(number, ("low total",), 1.0) for number in range(2)]

    assert review_verdict(waits, 1400).headline == "2 cycles of 1,400 stand out, not judged by anybody yet."
    assert review_verdict(waits[:1], 9).headline == "1 cycle of 9 stands out, not judged by anybody yet."
    assert review_verdict([], 0).details == "No cycle is recorded yet."
    assert rows_verdict(1, "sft", "ada").headline == "1 row of sft waits for ada."


def test_policies_are_compared_once_both_have_acted_for_long_enough() -> None:
    """The one that acts with the one before it; of few cycles nothing is claimed."""

    def earned(policy: str, cycles: int, mean: float) -> PolicyReward:
        return PolicyReward(policy, 0, cycles, cycles, mean)

    more = learning_verdict([earned("b", 30, 0.35), earned("a", 50, 0.25)], 80, None)
    young = learning_verdict([earned("b", 5, 0.9), earned("a", 50, 0.25)], 55, None)

    assert more.headline == "The policy that acts now earns 0.100 more than the one before it."
    assert more.details == "+0.350 in 30 cycles after +0.250 in 50."
    assert young.headline == "The policy that acts now is too young to compare: it takes 20 cycles."
    assert learning_verdict([earned("a", 1, 0.1)], 1, None).headline == "One policy has acted in the last 1 cycle."


async def test_the_review_looks_at_the_range_of_the_address(dashboard: Dashboard) -> None:
    """Cycles outside of it do not wait, and the next card is of the same range."""
    whole = parsed((await dashboard.client.get("/review")).text)
    part = parsed((await dashboard.client.get("/review?range=40-49")).text)

    assert f" of {CYCLES} stand" in whole.one("h2", id="verdict").text
    assert " of 10 stand" in part.one("h2", id="verdict").text
    assert "range=40-49" in part.one("div", id="card")["hx-get"]
    assert 40 <= int(part.one("article")["data-cycle"]) <= 49


async def test_a_memory_opens_in_the_panel_with_the_cycle_that_it_comes_from(tab: Page, dashboard: Dashboard) -> None:
    """A press beside its link; the head of the list says how many there are."""
    remember(dashboard)
    await tab.goto("./memory")
    await expect(tab.locator("#verdict")).to_have_text("echo has 5 memories.")
    row = tab.locator("tbody tr", has_text="Kelp grows")

    await row.locator("td").first.click(position={"x": 2, "y": 2})

    await expect(tab.locator("#peek")).to_contain_text(re.compile(r"[Cc]ycle 3"))
