"""The child's ends of the two pipes: its job and answers come in, its reports go out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO, Self

from conch.errors import ContractError
from conch.processes import PipeMessage, decode_line
from conch.training.job import ScoresAsked, ScoresGiven, TrainingJob


class ParentPipe:
    """Reads the job and answers from stdin, writes reports to what was stdout.

    Whatever libraries print goes to stderr from then on: a line on stdout is a report.
    """

    def __init__(self, inward: BinaryIO, outward: BinaryIO) -> None:
        self._inward, self._outward = inward, outward
        self._asked = 0

    @classmethod
    def of_process(cls) -> Self:
        """The pipes of this process."""
        reports = os.dup(1)
        os.dup2(2, 1)
        return cls(sys.stdin.buffer, os.fdopen(reports, "wb"))

    def job(self) -> TrainingJob:
        """The job. Raises ContractError, in one sentence, where the first line is none."""
        return decode_line(TrainingJob, self._inward.readline(), "a training job")

    def report(self, message: PipeMessage) -> None:
        """Write a line. Raises BrokenPipeError where the parent has gone."""
        self._outward.write(message.encode())
        self._outward.flush()

    def scores(self, row_ids: Sequence[str], replies: Sequence[str]) -> tuple[float | None, ...]:
        """The scores of these replies, which the parent gives; waits for them.

        Raises ContractError where the answer is none to this question, and where the parent has closed the pipe.
        """
        self._asked += 1
        self.report(ScoresAsked(number=self._asked, row_ids=tuple(row_ids), replies=tuple(replies)))
        answer = decode_line(ScoresGiven, self._inward.readline(), "an answer with scores")
        if answer.number != self._asked or len(answer.scores) != len(replies):
            raise ContractError(
                f"answer {answer.number} with {len(answer.scores)} scores came to question {self._asked} with "
                f"{len(replies)} replies: the trainer and its child are of different versions"
            )
        return answer.scores
