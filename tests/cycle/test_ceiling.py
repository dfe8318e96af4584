"""An agent at the ceiling of its budget: it waits, says until when, and no crash gives it more."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from conch.cycle import model_retry
from conch.errors import ModelError
from conch_schemas import (
    ActionDecided,
    ActionTaken,
    BudgetReached,
    BudgetReserved,
    CycleReflected,
    MessageSent,
    ThoughtFormed,
    Usage,
)

if TYPE_CHECKING:
    from tests.conftest import Until
    from tests.cycle.conftest import Life, Start

CALL = 'TOOL: notes(operation="recall", text="tide")'
ENDPOINT = {"kind": "openai"}


def used(life: Life) -> dict[str, float]:
    """What is used of each limit, by its name, as the agent's memory says that was made last."""
    ledger, now = life.at.memory.budget, time.time()
    return {quantity: ledger.used(quantity, 3600, now) for quantity in ("tokens", "money", "acts")}


async def test_at_the_limit_of_acts_the_agent_waits_and_says_until_when(
    life: Life, start: Start, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No act more than the limit in an hour; the state, the reason, the time and a fact say so; then it goes on."""
    now, real = time.time(), time.time
    life.configured(budget={"acts_per_hour": 3})
    life.mind.decides = lambda _: CALL
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    status = await running.ask("status")

    assert len(life.facts(ActionTaken)) == 3
    assert status["why"].startswith("3 of 3 acts in the last hour (budget.acts_per_hour): paused until 20")
    assert status["budget"] == [{"budget": "acts_per_hour", "limit": 3.0, "used": 3.0}]
    assert now + 3590 <= datetime.fromisoformat(status["until"]).timestamp() <= real() + 3601
    [reached] = life.facts(BudgetReached)
    assert (reached.budget, reached.limit, reached.used) == ("acts_per_hour", 3, 3)
    assert reached.until.timestamp() == pytest.approx(real() + 3600, abs=30)

    monkeypatch.setattr(model_retry.time, "time", lambda: real() + 3700)
    await running.ask("resume")  # wakes it, as time would
    await until(lambda: len(life.facts(ActionTaken)) > 3)
    assert ("running", "") in life.said[-3:]


async def test_a_question_is_not_asked_when_it_could_exceed_the_tokens(life: Life, start: Start, until: Until) -> None:
    """The whole of a question is reserved before it; used are the actual figures, so that more questions fit."""
    life.configured(budget={"tokens_per_hour": 12_000}, mind=ENDPOINT)
    life.mind.usage = Usage(input_tokens=900, output_tokens=100)
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    status = await running.ask("status")

    reserved, asked = life.facts(BudgetReserved), len(life.mind.asked)
    assert len(reserved) == asked
    assert [one.number for one in reserved] == list(range(asked))
    assert used(life)["tokens"] == 1000 * asked <= 12_000 < 1000 * asked + reserved[-1].tokens * 1.5
    assert "the next question may take" in status["why"]
    assert life.said[-1][0] == "budget"


async def test_a_reply_that_uses_all_that_is_reserved_stays_below_the_limit(
    life: Life, start: Start, until: Until
) -> None:
    """The prompt's tokens by the estimate and the longest reply: even then the hour has no more than its limit."""
    life.configured(budget={"tokens_per_hour": 40_000}, mind=ENDPOINT)
    usual = life.mind.complete

    async def all_of_it(prompt: Any) -> Any:
        life.mind.usage = Usage(input_tokens=prompt.tokens, output_tokens=prompt.max_tokens)
        return await usual(prompt)

    life.mind.complete = all_of_it
    running = await start()
    await until(lambda: running.agent.control.state == "budget")

    assert 20_000 < used(life)["tokens"] <= 40_000


async def test_a_limit_below_one_question_says_so_and_waits_for_a_person(
    life: Life, start: Start, until: Until
) -> None:
    """No time will give it room. A higher limit with a resume does, without a restart."""
    life.configured(budget={"tokens_per_hour": 50}, mind=ENDPOINT)
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    status = await running.ask("status")
    assert life.mind.asked == []
    assert status["why"].endswith("raise the limit, then conch resume")
    assert "until" not in status

    assert await running.ask("resume", {"budget": {"tokens_per_hour": 0}}) == {
        "error": "this is no budget: tokens_per_hour: Input should be greater than 0",
        "usage": True,
    }
    assert await running.ask("resume", {"budget": {"tokens_per_hour": 10**9}}) == {"ok": True}
    await until(lambda: len(life.facts(ActionTaken)) > 2)


async def test_a_tenth_of_a_budget_is_kept_for_messages(life: Life, start: Start, until: Until) -> None:
    """Work pauses at nine acts of ten, and says so; a message is answered with the tenth, also in its last second."""
    life.configured(budget={"acts_per_hour": 10})
    life.mind.decides = lambda situation: 'TOOL: reply(text="here")' if situation.message else CALL
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    status = await running.ask("status")
    assert len(life.facts(ActionTaken)) == 9
    assert status["why"].startswith(
        "9 of 10 acts in the last hour (budget.acts_per_hour), 1 kept for people's messages"
    )

    await running.ask("say", {"text": "are you there?"})
    await until(lambda: bool(life.facts(MessageSent)))
    await until(lambda: running.agent.control.state == "budget")
    assert len(life.facts(ActionTaken)) == 10

    await running.ask("say", {"text": "and now?"})
    await running.idle()
    status = await running.ask("status")
    assert status["state"] == "budget"
    assert status["why"].startswith("10 of 10 acts in the last hour (budget.acts_per_hour): paused until ")


async def test_a_message_is_answered_where_the_work_has_used_its_tokens(life: Life, start: Start, until: Until) -> None:
    """Of the budget, and of `mind.max_tokens_per_hour`, in the middle of a cycle or between two."""
    life.mind.usage = Usage(input_tokens=900, output_tokens=100)
    life.mind.decides = lambda situation: 'TOOL: reply(text="here")' if situation.message else "DO_NOTHING: resting"
    life.configured(
        budget={"tokens_per_hour": 60_000, "for_people": 0.3}, mind=ENDPOINT | {"max_tokens_per_hour": 50_000}
    )
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    assert used(life)["tokens"] <= 42_000

    await running.ask("say", {"text": "are you there?"})
    await until(lambda: bool(life.facts(MessageSent)))


async def test_stop_ends_the_wait_at_a_ceiling_at_once(life: Life, start: Start, until: Until) -> None:
    """Between cycles and in the middle of one; the open cycle is the next run's."""
    life.configured(budget={"tokens_per_hour": 50}, mind=ENDPOINT)
    running = await start()
    await until(lambda: running.agent.control.state == "budget")
    await running.ask("stop")
    await running.task

    life.configured(budget={"tokens_per_hour": None})
    await life.run(1)
    assert len(life.facts(ActionTaken)) == 1


async def test_the_wait_is_no_failure_of_the_mind(life: Life, start: Start, until: Until) -> None:
    """A run of set length does not give up a mind that never answered, however long the budget made it wait."""
    life.batch = True
    life.configured(budget={"tokens_per_hour": 50}, mind=ENDPOINT)
    running = await start(1)
    await until(lambda: running.agent.control.state == "budget")
    clock, model_retry.monotonic = model_retry.monotonic, lambda: clock() + 9000
    try:
        life.mind.failures = [ModelError("down for a moment", retry_after=0.01)]
        await running.ask("resume", {"budget": {}})
        await running.task
    finally:
        model_retry.monotonic = clock
    assert len(life.facts(ActionTaken)) == 1


@pytest.mark.parametrize("stored", [False, True])
async def test_a_crash_at_every_line_gives_no_new_budget(life: Life, stored: bool) -> None:
    """Killed before and after each publish of a cycle: every question that was lost counts whole, each act once."""
    life.configured(budget={"acts_per_hour": 100, "tokens_per_hour": 10**9}, mind=ENDPOINT, cycle={"reflect_every": 1})
    life.mind.decides = lambda _: CALL
    life.mind.usage = Usage(input_tokens=5, output_tokens=5)
    for at in range(8):
        cycle = life.at.memory.next_cycle if at else 0
        await life.crash(cycle + 1, at, stored=stored)
        await life.run(cycle + 1)

        expected, held = 0, 0
        for fact in life.facts(BudgetReserved, ThoughtFormed, ActionDecided, CycleReflected):
            if isinstance(fact, BudgetReserved):
                expected, held = expected + held, fact.tokens
            else:
                expected, held = expected + 10, 0
        assert used(life)["tokens"] == expected + held
        assert used(life)["acts"] == len(life.facts(ActionTaken)) == cycle + 1
    assert len(life.facts(BudgetReserved)) > 3 * 8


async def test_a_killed_question_counts_as_reserved(life: Life) -> None:
    """The process died while the mind replied: the next one counts all of that question, and then its own."""
    life.configured(budget={"tokens_per_hour": 10**6}, mind=ENDPOINT, cycle={"reflect_every": 0})
    life.mind.usage = Usage(input_tokens=5, output_tokens=5)
    await life.crash(1, 2, stored=False)  # policy, reservation, then the thought that is not stored
    [lost] = life.facts(BudgetReserved)
    await life.run(1)

    assert used(life)["tokens"] == lost.tokens + 20
    assert len(life.facts(BudgetReserved)) == 3


async def test_a_question_that_the_endpoint_refused_uses_nothing(life: Life) -> None:
    """Its reservation holds for the next try. One that broke off in the middle may have used it all."""
    life.configured(budget={"tokens_per_hour": 10**6}, mind=ENDPOINT, cycle={"reflect_every": 0})
    life.mind.usage = Usage(input_tokens=5, output_tokens=5)
    life.mind.failures = [ModelError("busy", status=503, retry_after=0.001)]
    await life.run(1)
    assert used(life)["tokens"] == 20
    assert len(life.facts(BudgetReserved)) == 2

    life.mind.failures = [ModelError("it broke off", retry_after=0.001)]
    await life.run(2)
    reserved = life.facts(BudgetReserved)
    assert len(reserved) == 5
    assert used(life)["tokens"] == 40 + reserved[2].tokens


async def test_a_memory_that_is_read_again_counts_what_was_used_once(life: Life, start: Start, until: Until) -> None:
    """From a checkpoint, and from the stream alone: the same figures, and no more acts in the hour."""
    life.configured(budget={"acts_per_hour": 3})
    life.mind.decides = lambda _: CALL
    await life.run(3)
    before = used(life)
    life.journal.bucket.clear()
    running = await start()
    await until(lambda: running.agent.control.state == "budget")

    assert used(life) == before
    assert len(life.facts(ActionTaken)) == 3


async def test_an_agent_without_limits_keeps_no_uses(life: Life) -> None:
    """They would be in each checkpoint of each agent; a limit that is set later counts from then on."""
    life.mind.decides = lambda _: CALL
    await life.run(3)
    assert len(life.at.memory.budget.uses) == 1

    life.configured(budget={"acts_per_hour": 3})
    await life.run(4)
    assert used(life)["acts"] == 2


def test_a_limit_of_money_needs_prices(life: Life) -> None:
    """Without a currency, or the price of a mind that is asked, there is nothing to count."""
    with pytest.raises(ValueError, match=r"budget\.money_per_hour and money_per_day need mind\.currency"):
        life.configured(budget={"money_per_day": 2})
    with pytest.raises(ValueError, match=r"need mind\.price, what its tokens cost"):
        life.configured(budget={"money_per_day": 2}, mind=ENDPOINT | {"currency": "EUR"})


async def test_money_is_reserved_at_the_price_of_the_longest_reply(life: Life, start: Start, until: Until) -> None:
    """The agent waits before a question whose price could exceed what is left."""
    prices = {"input": 1.0, "output": 1000.0}
    life.configured(
        budget={"money_per_day": 1.5}, mind=ENDPOINT | {"price": prices, "currency": "EUR", "max_tokens": 1024}
    )
    life.mind.usage = Usage(output_tokens=1)  # by a mind that names no price: it counts as it was reserved
    running = await start()
    await until(lambda: running.agent.control.state == "budget")

    [one, *_] = life.facts(BudgetReserved)
    assert one.money == pytest.approx(1.024, abs=0.01)
    assert "money in the last day (budget.money_per_day)" in life.said[-1][1]
