"""The figures of several runs as one Markdown table: a column for each run."""

from __future__ import annotations

from collections.abc import Sequence

from runs import percentile

from run.measure import PROCESSES, SYNCING, Measured

LARGEST = 6
"""Tables of the store that have a line of their own."""


def table(measured: Sequence[Measured]) -> str:
    """A line for each figure; a figure that a run lacks is `–`."""
    columns = [_figures(one) for one in measured]
    heads = [_head(one) for one in measured]
    lines = [["", *heads], ["---", *("---:" for _ in heads)]]
    names = dict.fromkeys(name for column in columns for name in column)
    lines += [[name, *(column.get(name, "–") for column in columns)] for name in names]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(one: Measured) -> str:
    spread = f", {one.processes} processes" if one.processes > 1 else ""
    return f"{one.agents:,} {one.mind}{spread}"


def _figures(one: Measured) -> dict[str, str]:
    small, large = one.sizes
    shown = {
        "cycles/s": f"{one.recorded / (one.after.time - one.before.time):.1f}",
        "command to first recorded, s": f"{one.first:.2f}",
        "act to recorded p50 / p99, ms": " / ".join(f"{percentile(one.waited, share):.1f}" for share in (0.5, 0.99)),
    }
    shown |= {f"CPU ms a cycle: {name}": f"{one.cpu[name]:.2f}" for name in ("all", *PROCESSES)}
    memory = {"all": sum(one.pss.values())} | one.pss
    shown |= {f"PSS MiB: {name}": f"{memory[name] / 2**20:.0f}" for name in ("all", *PROCESSES)}
    shown["RSS MiB: all, shared pages once for each"] = f"{sum(one.after.rss.values()) / 2**20:.0f}"
    cycles = max(1, large.stored - small.stored)
    shown["facts a cycle"] = f"{(large.stream.last - small.stream.last) / cycles:.1f}"
    kilobytes = {
        "stream": large.stream.bytes - small.stream.bytes,
        "files of the bus": large.files - small.files,
        "store": sum(large.tables.values()) - sum(small.tables.values()),
    }
    grown = {name: size - small.tables.get(name, 0) for name, size in large.tables.items()}
    for name in sorted(grown, key=grown.__getitem__, reverse=True)[:LARGEST]:
        kilobytes[f"store, {name}"] = grown[name]
    shown |= {f"KB a cycle: {name}": f"{size / cycles / 1000:.2f}" for name, size in kilobytes.items()}
    for name in SYNCING:
        if name in one.syncs:
            shown[f"fsyncs a cycle: {name}"] = f"{one.syncs[name] / max(1, one.recorded):.2f}"
    return shown
