"""Which topic a fact goes to, whatever somebody put on the bus."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conch_schemas import EVENTS
from conch_services.mqtt.topics import fact_topic, status_topic


@pytest.mark.parametrize("kind", [kind.TYPE for kind in EVENTS])
def test_every_kind_of_fact_has_a_topic(kind: str) -> None:
    """Agent, noun and verb are its levels."""
    noun, verb = kind.split(".")

    assert fact_topic(f"conch.v1.echo-2.{kind}") == f"conch/echo-2/{noun}/{verb}"


@given(st.text(max_size=80).map("conch.v1.{}".format) | st.text())
@example("conch.v1.+.action.taken")
@example("conch.v1.#.action.taken")
@example("conch.v1..action.taken")
@example("conch.v1.echo.action.taken\n")
@example("conch.v1.echo.act/ion.taken")
@example("conch.v1.$SYS.action.taken")
@example("conch.v1.echo.status")
@example("conch.v1.echo.action.taken.more")
@example("conch.v2.echo.action.taken")
def test_nothing_but_tokens_gets_into_a_topic(subject: str) -> None:
    """A topic has four levels of plain letters, or there is none; never a status's, never a wildcard."""
    topic = fact_topic(subject)

    assert topic is None or re.fullmatch(r"conch/[a-z0-9-]+/[a-z0-9_-]+/[a-z0-9_-]+", topic)
    assert topic is None or subject == topic.replace("/", ".").replace("conch.", "conch.v1.", 1)
    assert topic != status_topic("echo")
