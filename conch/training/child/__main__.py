"""Entry point of the child: `python -m conch.training.child`, with a job as a line on stdin."""

from __future__ import annotations

import logging
import sys
import traceback

from conch.errors import ConchError
from conch.training.child.failures import failure_of
from conch.training.child.limits import die_with_parent, go_offline, lift_limit, limit_memory, take_little
from conch.training.child.pipe import ParentPipe
from conch.training.child.resume import WorkDirectory
from conch.training.job import TrainingFailure


def main() -> int:
    """Train one job; 0 with an adapter or a forecast, 1 with a failure, which is reported too."""
    die_with_parent()
    pipe = ParentPipe.of_process()
    try:
        job = pipe.job()
    except ConchError as error:
        pipe.report(TrainingFailure(round="", reason=str(error), can_retry=False))
        return 1
    go_offline(job.out.parent / f".{job.out.name}.work" / "caches")
    try:
        threads = take_little(job)
        logging.captureWarnings(True)
        from conch.training.child.run import train  # imports torch: offline

        limit_memory(job)
        train(job, pipe, threads)
    except BrokenPipeError:
        return 1  # the parent has gone
    except ImportError as error:
        lift_limit()
        reason, can_retry = failure_of(error, job)
        pipe.report(TrainingFailure(round=job.round, reason=reason, can_retry=can_retry))
        return 1
    except Exception as error:
        lift_limit()
        if not isinstance(error, ConchError):
            traceback.print_exc(file=sys.stderr)
        reason, can_retry = failure_of(error, job)
        if not can_retry:
            WorkDirectory(job).remove()
        pipe.report(TrainingFailure(round=job.round, reason=reason, can_retry=can_retry))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
