"""What a run knows of one of its processes."""

from __future__ import annotations

from conch.processes import ChildRecord


def test_a_process_is_failing_while_a_consumer_in_it_fails_at_every_event() -> None:
    """It says of each which and why, and is `up` again with the last that recovers; a new process begins anew."""
    record = ChildRecord("consumers", state="up")
    seen = []

    for consumer, why in (("needs", "ValueError: a"), ("watch", "KeyError: b"), ("needs", ""), ("watch", "")):
        record.fails(consumer, why)
        seen.append((record.state, record.why))
    record.fails("needs", "ValueError: a")
    record.died("SIGKILL")
    record.state, record.why = "up", ""
    record.fails("watch", "")

    assert seen == [
        ("failing", "needs fails: ValueError: a"),
        ("failing", "needs fails: ValueError: a; watch fails: KeyError: b"),
        ("failing", "watch fails: KeyError: b"),
        ("up", ""),
    ]
    assert (record.state, record.why) == ("up", "")
