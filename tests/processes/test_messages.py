"""What the supervisor and its children tell each other: each line is read as it was written, garbage in a sentence."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, get_args

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from conch.bus import Access
from conch.config import Settings
from conch.consumer.plugins.discover import PluginRow
from conch.errors import ContractError
from conch.processes import messages
from conch.processes.line import PipeMessage, decode_line, kind_of
from conch.processes.rule_messages import RuleAnswer, RuleInput, RuleTask, decode_answer
from conch.processes.supervisor import MOST_UNREADABLE, ChildProcess, ChildRecord
from conch.rules import RuleInfo
from conch.values import Values

REPORTS: tuple[type[PipeMessage], ...] = tuple(
    kind for one in get_args(messages.Report) for kind in (get_args(one) or (one,))
)
PLUGIN = RuleInfo(name="brevity", version="1", weight=0.2, origin="/rules/brevity.py", text="@rule…", window=3)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def made(*kinds: type[PipeMessage]) -> st.SearchStrategy[PipeMessage]:
    """A line of one of these kinds, with any texts and numbers."""
    return st.one_of(
        *(
            st.builds(
                kind, **{name: of(field.annotation) for name, field in kind.model_fields.items() if name != "kind"}
            )
            for kind in kinds
        )
    )


def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Values of a field."""
    simple: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: st.integers(0, 2**40),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
    }
    if annotation in simple:
        return simple[annotation]
    if getattr(annotation, "__origin__", None) is tuple:
        return st.lists(of(get_args(annotation)[0]), max_size=3).map(tuple)
    return st.one_of(*(of(part) for part in get_args(annotation)))


@given(made(*REPORTS))
def test_a_report_is_read_as_it_was_written(report: messages.Report) -> None:
    """Each kind, on one line."""
    line = report.encode()

    assert line.count(b"\n") == 1
    assert messages.decode_report(line) == report


@given(made(*get_args(RuleAnswer)))
def test_an_answer_of_a_rule_is_read_as_it_was_written(answer: RuleAnswer) -> None:
    """Each kind."""
    assert decode_answer(answer.encode()) == answer


@given(made(RuleTask, RuleInput, messages.StopCommand, messages.FinishCommand))
def test_what_a_process_is_told_is_read_as_it_was_written(line: PipeMessage) -> None:
    """The task of a rule's process, what a rule carries, commands."""
    assert decode_line(type(line), line.encode(), "a line") == line


def test_the_starts_are_read_as_they_were_written() -> None:
    """With the secrets of the settings, plug-ins, a home whose name is not UTF-8, and where an agent stood."""
    settings = Settings.model_validate(
        {"bus": {"url": "nats://there", "token": "hush"}, "ui": {"token": "hush-hush-hush-hush"}}
    )
    home = Path(os.fsdecode(b"/home/\xff\xc3\xa9"))
    begun = messages.AgentBegun(agent="echo", until=None, decisions=7)
    several: list[messages.ChildStart] = [
        messages.ConsumersStart[PluginRow](
            settings=settings, home=home, access=Access("nats://there", token="hush"), name="conch-consumers",
            agents=("echo", "delta"), builtin=("reward",), plugins=(PLUGIN,), keeps=True, reloads=True, since=9,
        ),
        messages.AgentsStart(
            settings=settings, home=home, access=Access("nats://there"), cycles=None,
            agents=(messages.AgentStart(name="echo", agentuid="u", beyond=3, born=4, begun=begun),),
            resting={"delta": "v"}, workspace=home / "workspace", alone=False, values=Values(),
        ),
    ]  # fmt: skip

    for start in several:
        found = decode_line(type(start), start.encode(), "a start")
        assert found.home == home
        assert found.settings == settings
        assert found.access == start.access
        assert found.encode() == start.encode()
        assert "hush" not in repr(found)


def test_a_command_names_its_kind_and_carries_rules() -> None:
    """The child tells by it which handler is meant."""
    line = messages.ChangeRules[PluginRow](rules=(PLUGIN,)).encode()

    assert [kind_of(one.encode(), "a command") for one in (messages.StopCommand(), messages.FinishCommand())] == [
        "stop",
        "finish",
    ]
    assert kind_of(line, "a command") == "change_rules"
    [rule] = decode_line(messages.ChangeRules[PluginRow], line, "a command").rules
    assert rule == PLUGIN


@pytest.mark.parametrize("report", [messages.ConsumerWaits(consumer="otel", why="away"), messages.Heartbeat()])
def test_a_field_that_is_not_known_is_ignored(report: messages.Report) -> None:
    """A later version may add one."""
    assert messages.decode_report(report.encode()[:-2] + b',"newer":[1]}\n') == report


def test_a_lone_surrogate_does_not_keep_an_error_from_being_told() -> None:
    """A file name or an error's words may have one."""
    line = messages.ChildFailed(error="no file a\udcff").encode()

    assert messages.decode_report(line) == messages.ChildFailed(error="no file a?")


@pytest.mark.parametrize(
    "line",
    [b"", b"hello\n", b"5\n", b'"x"\n', b"[1]\n", b"{}\n", b'{"kind":"newer"}\n', b'{"kind":"agent_failed"}\n',
     b"\xff\n", b"[" * 100_000, b'{"kind":"' + b"x" * 100_000 + b'"}'],
)  # fmt: skip
def test_garbage_is_refused_in_one_sentence(line: bytes) -> None:
    """What a plug-in prints, half a line, a kind that nothing knows; the line itself is not shown."""
    for decode in (messages.decode_report, decode_answer):
        with pytest.raises(ContractError) as refusal:
            decode(line)
        assert "\n" not in str(refusal.value)
        assert len(str(refusal.value)) < 300


PRINTS = """
import os, sys
os.write(1, b"hello\\n5\\n[1]\\n" + b"x" * 5_000_000 + b"\\n" + b"noise\\n" * 40)
sys.stdin.readline()
os.write(1, b'{"kind":"consumer_note","consumer":"joy","note":"still here"}\\n{"kind":"work_done"}\\n')
"""


async def test_what_a_child_prints_beside_its_reports_is_a_sentence_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a number nor a line that is too long ends the run; the reports behind it are heard. Only the first such
    lines are logged."""
    (tmp_path / "printing.py").write_text(PRINTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    heard: list[messages.Report] = []
    child = ChildProcess(
        ChildRecord("joy"), "printing", hear=lambda _, report: heard.append(report), changed=lambda: None,
        tell=lambda _: None, lasts=False,
    )  # fmt: skip

    async def start() -> messages.ChildStart:
        return messages.ConsumersStart[PluginRow](
            settings=Settings(), home=tmp_path, access=Access("nats://there"), name="conch-joy", agents=("echo",)
        )

    with structlog.testing.capture_logs() as logged:
        async with asyncio.timeout(60):
            status = await child.live(start)

    assert status == 0
    assert heard == [messages.ConsumerNote(consumer="joy", note="still here")]
    told = [line for line in logged if line["event"] == "process.report_unreadable"]
    assert len(told) == MOST_UNREADABLE
    assert told[1]["error"] == "a line of 2 bytes is not a report (Input should be an object)"
    assert any("more than" in line["error"] for line in told)
