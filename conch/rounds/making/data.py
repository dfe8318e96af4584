"""The frozen data of a round: snapshots of a lineage's experiences, as people's reviews allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from conch.config import Masker, Settings
from conch.data import Format, LeftOut, Manifest, Row, Selection, redactor, rows_of, survey_of, write_snapshot
from conch.errors import TrainingError
from conch.experience import ExperienceReader
from conch.review import ReviewDecisions, ReviewPolicy, corrections_of, reviewed

EVAL_SHARES: Final = (0.1, 0.2, 0.3, 0.5)
"""Shares of the states that are held out, tried from the first on until the gate has enough states."""


@dataclass
class RowVariety:
    """What the rows of train have that a method can learn from."""

    replies: set[str] = field(default_factory=set)
    """Different replies, as far as MOST of them."""
    labels: set[bool] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    """State keys of rows that are trained on."""

    MOST: Final = 1000

    def watch(self, answers: Iterable[Row | LeftOut]) -> Iterator[Row | LeftOut]:
        """The answers, each looked at."""
        for answer in answers:
            if isinstance(answer, Row) and answer.split == "train":
                self.states.add(answer.state_key)
                if len(self.replies) < self.MOST:
                    self.replies.add(str(answer.columns.get("completion", answer.columns.get("chosen"))))
                if isinstance(label := answer.columns.get("label"), bool):
                    self.labels.add(label)
            yield answer


@dataclass(frozen=True)
class FrozenData:
    """A snapshot that a round trains on."""

    place: Path
    is_new: bool
    """Whether it was not there before."""
    manifest: Manifest
    variety: RowVariety

    @property
    def rows(self) -> int:
        """Rows of train."""
        return self.manifest.splits["train"]

    @property
    def why_not(self) -> str | None:
        """Why nothing can be learnt from it, in one sentence; None: something can."""
        manifest = self.manifest
        if not self.rows:
            reasons = sorted(manifest.left_out.items(), key=lambda one: (-one[1], one[0]))[:3]
            left = ", ".join(f"{count} {reason}" for reason, count in reasons)
            of = f"{manifest.rows_seen} acts and pairs were looked at" + (f": {left}" if left else "")
            review = "; conch review next shows those that wait for you" if "not_reviewed" in manifest.left_out else ""
            return f"there is no row of {manifest.format} to train on ({of}){review}"
        if manifest.format != "grpo" and len(self.variety.replies) < 2:
            return (
                f"all {self.rows} rows of {manifest.format} have the same reply: the mind would learn to say that alone"
            )
        if manifest.format == "kto" and len(self.variety.labels) < 2:
            kind = "good" if True in self.variety.labels else "bad"
            return f"all {self.rows} rows of kto are labelled {kind}: a reply is good or bad beside others only"
        return None


def freeze_data(
    store: ExperienceReader, settings: Settings, agent: str, format: Format, share: float, out: Path
) -> FrozenData:
    """The snapshot of an agent's experiences in this format, below `out`, as `conch data export` makes it with
    `training.review`. `share`: of the states, that are held out. Raises StoreError, UsageError; OSError where the disk
    is full."""
    redact, policy = redactor(Masker.of(settings)), ReviewPolicy.of(settings.training.review)
    selection = Selection(agent=agent, eval_share=share)
    survey = survey_of(store.examples.marks(), share)
    answers = rows_of(store, format, selection, redact=redact, survey=survey)
    if format in ("sft", "dpo", "kto"):
        decisions = ReviewDecisions(store.reviews.walk())
        corrections = corrections_of(store, format, decisions, selection, redact=redact, survey=survey)
        answers = reviewed(answers, decisions, policy, corrections)
    variety = RowVariety()
    there = {one.name for one in out.iterdir()} if out.is_dir() else set()
    place, manifest = write_snapshot(variety.watch(answers), out, format, selection)
    return FrozenData(place, place.name not in there, manifest, variety)


def refuse_unusable(data: FrozenData) -> None:
    """Raises TrainingError, in one sentence, where nothing can be learnt from it."""
    if (why := data.why_not) is not None:
        raise TrainingError(why)
