"""`python -m conch.consumer.worker ORIGIN NAME MEMORY_MIB`: the process that one plug-in rule runs in.

Acts come in, a line each, on stdin; answers go out, a line each: `{"id": …, "value": …}` or `{"id": …, "error": …}`.
What the rule prints goes to stderr. It ends with its stdin.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import resource
import sys
from typing import IO, Any

from conch.consumer.discover import load_one
from conch.consumer.spec import RuleSpec
from conch_schemas import ActionTaken, decode


def _value(result: object) -> Any:
    """What goes on the line: numbers, None, and the words of anything else."""
    if result is None or isinstance(result, bool):
        return result if result is None else str(result)
    if isinstance(result, int | float):
        return float(result) if math.isfinite(result) else str(result)
    item = getattr(result, "item", None)  # numpy's scalars
    return _value(item()) if callable(item) and type(result).__module__ == "numpy" else repr(result)[:200]


def _serve(rule: RuleSpec, loop: asyncio.AbstractEventLoop, answers: IO[str]) -> None:
    own = os.getpid()
    for line in sys.stdin.buffer:
        event = decode(line)
        try:
            assert isinstance(event, ActionTaken)
            result = rule.function(event)
            if inspect.isawaitable(result):
                result = loop.run_until_complete(_awaited(result))
            answer = {"value": _value(result)}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        if os.getpid() != own:
            os._exit(0)  # the rule forked, and this is its child
        answers.write(json.dumps({"id": event.id, **answer}) + "\n")
        answers.flush()


async def _awaited(result: Any) -> Any:
    return await result


def main() -> None:
    """Load the rule, say so with `{}`, then score."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    origin, name, mebibytes = sys.argv[1:4]
    limit = int(mebibytes) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        rule = load_one(origin, name)
        assert isinstance(rule, RuleSpec), f"{name} is a consumer, not a rule"
    except BaseException as error:
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}) + "\n")
        answers.flush()
        return
    answers.write("{}\n")
    answers.flush()
    _serve(rule, asyncio.new_event_loop(), answers)


if __name__ == "__main__":
    main()
