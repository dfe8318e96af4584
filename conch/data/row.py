"""A row of a data set, and what stands for an act or a pair that is left out of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Required, TypedDict, Unpack, get_args

import msgspec
from pydantic import JsonValue

from conch.errors import CheckError

Format = Literal["sft", "dpo", "kto", "grpo", "reward", "cycles", "minari"]
"""Columns by the reader: TRL's trainers (SFT, DPO, KTO, GRPO, reward models), tables of cycles, Minari's episodes."""
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
PAIRED: Final = frozenset(("dpo", "reward"))
"""Formats whose rows are pairs of a chosen and a rejected reply."""
Origin = Literal["acted", "repaired", "corrected", "synthetic", "fork"]
"""Where the reply of a row comes from: the agent's own act; an invalid reply of which the valid call was kept; a
person's correction; the registry of tools; a fork of a cycle."""
Tier = Literal["A", "B", "C", "D"]
"""Kind of a pair: A the same prompt, B a fork, C a repaired invalid reply, D the same state key."""
Split = Literal["train", "eval"]
SPLITS: Final[tuple[Split, ...]] = get_args(Split)

_canonical: Final = msgspec.json.Encoder(order="sorted").encode


class Row(msgspec.Struct, frozen=True):
    """One row of a data set. Made by `make_row`; `conch.data.rows_of` yields those of a store."""

    row_id: str
    """SHA-256, hexadecimal, over the format and `content`. A row of which any of these differs is another row: what was
    decided of the one does not hold of the other. That of a KTO row is taken without the margin, which changes with
    each new act of its state: a decision holds until the label changes. A row of no role has the id that it had before
    rows named one."""
    format: Format
    columns: Mapping[str, JsonValue]
    """The columns of the format, in its reader's names."""
    agent: str
    action_ids: tuple[str, ...]
    """The acts that it was made of: one; of a pair the chosen, then the rejected one; of an episode each; of a
    synthetic row none."""
    state_key: str
    """As `Decoding.state_key`; empty for a row that belongs to no state."""
    prompt_hash: str
    """As `Decoding.prompt_sha256`, of the recorded prompt; empty where there is none."""
    policy: str | None = None
    """Digest of the policy that acted."""
    weights: str = ""
    """Version of the weight set of `reward`."""
    revision: int = 0
    """Revision of the experience at the time of the export; 0: no experience."""
    reward: float | None = None
    """Total of the act; of a pair that of the chosen one."""
    margin: float | None = None
    """Chosen minus rejected total of a pair; for KTO the advantage over the state's mean."""
    skill: str = ""
    """Tool and operation of the reply, as `Action.skill`; of a pair those of the chosen one."""
    status: str = ""
    """Outcome of the act; of a pair that of the chosen one. Empty for a reply that was not run."""
    origin: Origin = "acted"
    tier: Tier | None = None
    """None for a row that is no pair."""
    split: Split = "train"
    weight: float = 1.0
    """Weight of the row in a loss, above 0."""
    role: str | None = None
    """Role of the team that acted; of a pair that of the chosen one. None: no team, or an episode of several roles."""
    content: bytes = b""
    """The columns and the lineage without the split as one JSON object, its keys sorted. A role that is None is not in
    it."""

    def lineage(self) -> dict[str, JsonValue]:
        """The columns of LINEAGE with their values."""
        left_out = {*(() if self.format in PAIRED else ("tier",)), *(() if self.role is not None else ("role",))}
        return {name: getattr(self, name) for name in LINEAGE if name not in left_out} | {
            "action_ids": list(self.action_ids)
        }

    def document(self) -> dict[str, JsonValue]:
        """The row as one flat JSON object: the columns of its format, then the lineage."""
        return {**self.columns, "row_id": self.row_id, **self.lineage(), "split": self.split}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An act or a pair that was looked at and is no row."""

    reason: str
    """Why, in a few words: a key of `left_out` in the manifest."""
    action_ids: tuple[str, ...] = ()


LINEAGE: Final = (
    "action_ids",
    "state_key",
    "prompt_hash",
    "agent",
    "policy",
    "weights",
    "revision",
    "reward",
    "margin",
    "skill",
    "status",
    "origin",
    "weight",
    "role",
    "tier",
)
"""Columns of all formats that lead back to the acts, beside `row_id` and `split`; `tier` is there for pairs alone, and
`role` in JSON for the acts of a team alone."""


class Lineage(TypedDict, total=False):
    """Fields of `Row` by their names: all but its id, its format and its columns."""

    agent: Required[str]
    action_ids: Required[tuple[str, ...]]
    state_key: Required[str]
    prompt_hash: Required[str]
    policy: str | None
    weights: str
    revision: int
    reward: float | None
    margin: float | None
    skill: str
    status: str
    origin: Origin
    tier: Tier | None
    split: Split
    weight: float
    role: str | None


_DEFAULTS: Final = {
    one.name: one.default for one in msgspec.structs.fields(Row) if one.name in LINEAGE and not one.required
}
_HEADS: Final = {format: f"{format}\n".encode() for format in FORMATS}


def make_row(format: Format, columns: Mapping[str, JsonValue], **lineage: Unpack[Lineage]) -> Row:
    """The row of these columns and this lineage, with its id."""
    document = {**columns, **_DEFAULTS, **lineage}
    document.pop("split", None)
    if document["role"] is None:
        del document["role"]
    if format not in PAIRED:
        del document["tier"]
    content = _canonical(document)
    digest = row_id_of(format, content if format != "kto" else _without_margin(document))
    return Row(digest, format, columns, **lineage, content=content)


def row_id_of(format: Format, content: bytes) -> str:
    """The id of a row with this content; of a KTO row, that without its margin."""
    return hashlib.sha256(_HEADS[format] + content).hexdigest()


def _without_margin(document: Mapping[str, object]) -> bytes:
    return _canonical({name: value for name, value in document.items() if name != "margin"})


def read_row(format: Format, document: Mapping[str, JsonValue]) -> Row:
    """The row of a `Row.document`, as a file has it.

    Raises CheckError for a document that is none, or of which the id is not that of its content.
    """
    known = {*LINEAGE, "split"}
    columns = {name: value for name, value in document.items() if name not in known and name != "row_id"}
    try:
        lineage = msgspec.convert({name: value for name, value in document.items() if name in known}, Lineage)
    except msgspec.ValidationError as error:
        raise CheckError(f"the row {document.get('row_id')} is no row of a data set: {error}") from error
    row = make_row(format, columns, **lineage)
    if document.get("row_id") == row_id_of(format, row.content):  # also a KTO row of a version that took the margin in
        return msgspec.structs.replace(row, row_id=document["row_id"])
    if row.row_id != document.get("row_id"):
        raise CheckError(f"the row {document.get('row_id')} was edited: its id is not that of its content")
    return row
