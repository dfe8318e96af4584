"""`conch doctor`: check whether this machine, the home and the configuration are fit for a run."""

from __future__ import annotations

import asyncio
import sys

from conch.cli.common import CommonOptions, emit, quiet, say
from conch.cli.options import COMMON
from conch.config import Settings
from conch.errors import BusError, ConfigError, ModelError
from conch.rewards import check_table
from conch.views import DoctorFinding, all_checks, findings_shown, plugin_findings, python_check, tool_findings

_MARKS = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}


async def doctor(*, common: CommonOptions = COMMON) -> None:
    """Check everything that a run needs. Exit status 1 for a problem, 3 when the bus or the mind cannot be reached."""
    quiet()
    home = common.where()
    findings = [python_check()]
    try:
        settings = common.settings()
        check_table(settings.rewards.weights)
        findings.append(DoctorFinding("config", "ok", "the settings are right"))
    except ConfigError as error:
        settings = Settings()
        findings.append(
            DoctorFinding("config", "problem", str(error), "mend that; the rest is checked with the defaults")
        )
    findings += await all_checks(settings, home)
    findings += await tool_findings(settings)
    findings += await asyncio.to_thread(plugin_findings, settings)
    _report(findings, common)
    if status := exit_status(findings):
        sys.exit(status)


def exit_status(findings: list[DoctorFinding]) -> int:
    """0 without a problem; 3 when the bus, the mind or the environment of the clients is one of them, else 1."""
    problems = {finding.name for finding in findings if finding.status == "problem"}
    if "bus" in problems:
        return BusError.exit_code
    return ModelError.exit_code if {"mind", "environment"} & problems else int(bool(problems))


def _report(findings: list[DoctorFinding], common: CommonOptions) -> None:
    if common.json:
        emit(findings_shown(findings))
        return
    for finding in findings:
        say(f"{_MARKS[finding.status]}  {finding.name}: {finding.says}")
        if finding.do:
            say(f"{'':9}-> {finding.do}")
