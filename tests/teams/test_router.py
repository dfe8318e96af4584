"""The router: order, once, bounds, epochs."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from conch.teams import (
    ROLES,
    RoutedMessage,
    RouterLimits,
    RouterState,
    aborted,
    committed,
    prepared,
    refusal,
    sent,
    taken,
)

SMALL = RouterLimits(queued=3, delivered=2, message_bytes=10)


def _message(number: int, to: str = "coder", epoch: int = 0) -> RoutedMessage:
    return RoutedMessage(id=f"m{number}", sender="planner", to=to, text=f"{number}", step=number, epoch=epoch)


def _ids(messages: tuple[RoutedMessage, ...]) -> list[str]:
    return [message.id for message in messages]


def test_a_message_that_comes_twice_is_delivered_once() -> None:
    """The same id again changes nothing, also after the recipient has taken it."""
    state = sent(RouterState(), _message(0))
    state, first = taken(sent(state, _message(0)), "coder")
    state, again = taken(sent(state, _message(0)), "coder")

    assert _ids(first) == ["m0"]
    assert again == ()


def test_a_full_queue_refuses_and_says_so() -> None:
    """Of a recipient that takes nothing two messages are delivered, three wait, and the next one is refused."""
    state = RouterState()
    for number in range(5):
        assert refusal(state, "planner", ("coder",), "text", ROLES, SMALL) is None
        state = sent(state, _message(number), SMALL)

    assert refusal(state, "planner", ("coder",), "text", ROLES, SMALL) == (
        "3 messages wait for coder, as many as may: it must take its turn first"
    )
    state, first = taken(state, "coder", SMALL)
    state, then = taken(state, "coder", SMALL)
    state, last = taken(state, "coder", SMALL)
    assert _ids((*first, *then, *last)) == ["m0", "m1", "m2", "m3", "m4"]


def test_a_message_beyond_the_limit_is_refused_by_its_bytes() -> None:
    """Six letters of two bytes each are more than ten."""
    assert refusal(RouterState(), "planner", ("coder",), "ä" * 5, ROLES, SMALL) is None
    assert refusal(RouterState(), "planner", ("coder",), "ä" * 6, ROLES, SMALL) == (
        "the message has 12 bytes, more than 10: shorten it, or write it to a file"
    )


def test_messages_of_a_prepared_switch_wait_for_the_next_epoch() -> None:
    """They are not delivered before the commit, and in their order after it."""
    state = prepared(sent(RouterState(), _message(0)), "chain")
    state = sent(sent(state, _message(1, epoch=1)), _message(2, epoch=1))
    assert _ids(state.inboxes["coder"]) == ["m0"]

    state = committed(state)

    assert (state.epoch, state.topology, state.target) == (1, "chain", None)
    assert _ids(state.inboxes["coder"]) == ["m0", "m1", "m2"]


def test_a_switch_is_not_committed_over_what_is_not_delivered() -> None:
    """A message that waits behind a full inbox holds the epoch; aborted, what waited follows it."""
    state = RouterState()
    for number in range(3):
        state = sent(state, _message(number), SMALL)
    state = sent(prepared(state, "flat"), _message(3, epoch=1), SMALL)

    assert committed(state, SMALL) == state
    state = aborted(state, SMALL)

    assert (state.epoch, state.topology, state.target) == (0, "star", None)
    assert [(one.id, one.epoch) for one in state.queues["coder"]] == [("m2", 0), ("m3", 0)]


def test_a_second_switch_is_not_prepared_over_the_first() -> None:
    """The target of the first one stays."""
    state = prepared(prepared(RouterState(), "chain"), "flat")

    assert state.target == "chain"


def test_a_message_of_an_epoch_that_is_over_or_far_is_not_taken() -> None:
    """Of epochs 0, 2 and 3 none reaches epoch 1 while nothing is prepared."""
    state = RouterState(epoch=1)

    assert all(sent(state, _message(epoch, epoch=epoch)) == state for epoch in (0, 2, 3))


_ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(ROLES[1:])),
        st.tuples(st.just("take"), st.sampled_from(ROLES[1:])),
        st.sampled_from([("prepare", "chain"), ("prepare", "flat"), ("commit", ""), ("abort", "")]),
    ),
    max_size=60,
)


@given(_ACTS)
def test_each_message_is_delivered_once_and_in_order_whatever_happens_between(acts: list[tuple[str, str]]) -> None:
    """Over any sends, turns, commits and aborts, what a role takes in the end is what was sent to it, in that order;
    queues and inboxes keep their bounds, and an epoch is over once."""
    state, got, number = RouterState(), {role: list[str]() for role in ROLES}, 0
    wanted: dict[str, list[str]] = {role: [] for role in ROLES}
    for what, name in acts:
        epoch = state.epoch
        if what == "send" and refusal(state, "planner", (name,), "", ROLES, SMALL) is None:
            state = sent(state, _message(number, name, state.sending_epoch), SMALL)
            wanted[name].append(f"m{number}")
            number += 1
        elif what == "take":
            state, messages = taken(state, name, SMALL)
            got[name] += _ids(messages)
        elif what == "prepare":
            state = prepared(state, "chain" if name == "chain" else "flat")
        elif what in ("commit", "abort"):
            state = committed(state, SMALL) if what == "commit" else aborted(state, SMALL)
        assert state.epoch - epoch in (0, 1)
        assert all(len(inbox) <= SMALL.delivered for inbox in state.inboxes.values())
    for role, messages in _rest(state):
        got[role] += messages

    assert got == wanted


def _rest(state: RouterState) -> Iterator[tuple[str, list[str]]]:
    state = aborted(state, SMALL)
    for role in ROLES:
        while state.inboxes.get(role):
            state, messages = taken(state, role, SMALL)
            yield role, _ids(messages)
