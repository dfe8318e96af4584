"""What the children of a run report, and run.json, in which other commands read it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from conch.auth import called
from conch.cli.run.describe import address, set_aside
from conch.cli.run.output import RunOutput
from conch.cli.run.page import report_page
from conch.cli.run.state import RunState
from conch.config import chosen_file
from conch.config.model import METRICS_PORT
from conch.consumer.plugins import row_of
from conch.errors import ConchError
from conch.home import write_whole
from conch.processes import ChildRecord, messages
from conch.run_info import ProcessInfo, RunInfo

CONSUMERS = "consumers"
"""Name of the process of all consumers that come with Conch, and of /metrics."""


class ChildReports:
    """Takes what the children report into the state of the run, tells it, and keeps run.json up to date."""

    def __init__(self, state: RunState, run_output: RunOutput) -> None:
        self._state, self._run_output = state, run_output

    def hear(self, watched: ChildRecord, report: messages.Report) -> None:
        """A report of a child."""
        match report:
            case messages.AgentBegun():
                self._state.begun[report.agent] = report
            case messages.AgentFailed():
                self._state.failed[report.agent] = error = ConchError(f"{report.agent}: {report.error}")
                error.exit_code = report.exit_code
            case messages.AgentsEnded():
                self._state.at_rest[watched.name] = None
                self._state.rested.set()
            case messages.AgentsSetAside():
                self._note_set_aside(watched.name, report)
            case messages.AgentWaits():
                self._run_output.state(report.agent, report.state, report.why, asks=report.asks)
            case messages.MindAsked():
                self._run_output.waits(report)
            case messages.ConsumerNote():
                self._run_output.warn(f"! {report.consumer}: {report.note}")
            case messages.EngineServed():
                self._state.engine.served(report)
                self._run_output.tell(f"model {self._state.model} loaded in {report.seconds:.1f} s")
            case messages.PluginMetricsReported():
                shown = next(one for one in self._state.children if one.watched.name == CONSUMERS)
                shown.tell(messages.ShowPluginMetrics(process=watched.name, metrics=report.metrics))
            case _:
                self._hear_of_consumers(watched, report)
                self.write_down()

    def _note_set_aside(self, process: str, report: messages.AgentsSetAside) -> None:
        """Record that no agent of a process goes on, or that one does again."""
        self._state.at_rest.pop(process, None)
        if report.error:
            self._state.at_rest[process] = error = ConchError(report.error)
            error.exit_code = report.exit_code
            self._state.rested.set()

    def _hear_of_consumers(self, watched: ChildRecord, report: messages.Report) -> None:
        """A report that `conch status` shows, too."""
        state = self._state
        match report:
            case messages.MetricsServed():
                state.metrics = report.url
                moved = state.settings.metrics.port is None and f":{METRICS_PORT}/" not in state.metrics
                note = f" (port {METRICS_PORT} is taken)" if moved else ""
                self._run_output.tell(f"metrics {state.metrics}{note}")
            case messages.PageServed() if state.page != report.url:
                state.page = report.url
                report_page(self._run_output, state.settings.ui, state.home, state.page)
            case messages.ConsumerWaits():
                waits = f"{report.consumer} waits: "
                if report.why:
                    watched.why = f"{waits}{report.why}"
                    self._run_output.warn(watched.why)
                elif watched.why.startswith(waits):
                    watched.why = ""
            case messages.ConsumerFailing():
                watched.fails(report.consumer, report.why)
                how = f"fails at every event: {report.why}" if report.why else "handles events again"
                self._run_output.warn(f"consumer {report.consumer} {how}")
            case messages.ConsumerDown() | messages.ConsumerBroke():
                watched.why = report.why
                how = "stays down" if isinstance(report, messages.ConsumerDown) else "broke"
                self._run_output.warn(f"consumer {report.consumer} {how}: {watched.why}")

    def write_down(self) -> None:
        """Write run.json: what `conch status` and the other commands read."""
        with contextlib.suppress(OSError):  # a full disk: the run goes on, status is stale
            write_whole(self._state.home.run_file, run_info(self._state).encode())


def run_info(state: RunState) -> RunInfo:
    """What other commands may know of the run."""
    from conch.experience import store_location

    file = chosen_file(state.common.config, state.home)
    return RunInfo(
        pid=os.getpid(),
        agents=tuple(state.agents),
        has_agent=state.has_agent,
        config=str(file.absolute()) if file else None,
        started=state.started,
        bus=address(state.access, embedded=state.embedded),
        metrics=state.metrics,
        ui=called(state.settings.ui, state.page) if state.page is not None else None,
        mqtt=state.listener.address if state.listener is not None else None,
        store=str(store_location(state.settings.store.url, state.home.path)),
        workspace=str(state.workspace),
        processes=tuple(
            ProcessInfo(name=one.name, pid=one.pid, state=one.state, restarts=one.restarts, why=one.why)
            for one in state.watched
        ),
        consumers=(
            *state.wanted_builtin(),
            *(rule.consumer for rule in state.wanted_rules()),
            *(plugin.name for plugin in state.wanted_plugins()),
        ),
        rules=tuple(row_of(replace(rule, text=None)) for rule in state.found.rules),
        set_aside=set_aside(state.settings, state.found),
    )
