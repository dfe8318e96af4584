"""What an earlier version's mind learnt is left with a sentence; the words that it kept go where something is
forgotten."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from structlog.testing import capture_logs

from conch.errors import CheckError
from conch.minds import FrozenShelf, forget_old_memory
from conch.minds.embedded.memory import BanditMemory, load, save
from conch.minds.reflex import ReflexMind

if TYPE_CHECKING:
    from tests.minds.conftest import MakePrompt


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file as an earlier version wrote it: 285 features, 61 templates, and words that it had read."""
    size, path = 285, tmp_path / "reflex.npz"
    np.savez(
        path, layout=np.array("0123456789abcdef"), A=np.eye(size), b=np.zeros(size), counts=np.array([7, 6, 1, 0]),
        tries=np.zeros((61, 2)), uses=np.zeros(7), lately=np.zeros((0, 3)), decisions=np.zeros((0, 5), dtype=np.int64),
        rewards=np.zeros(0), x=np.zeros((0, size)), words=np.array(["Roswitha"]), calls=np.zeros(0, dtype=np.int64),
        generation=np.array("ab" * 32),
    )  # fmt: skip
    return path


async def test_the_mind_begins_again_and_the_file_is_kept(old: Path, prompt: MakePrompt) -> None:
    """It decides as one that has learnt nothing; a line of the log says why."""
    with capture_logs() as logs:
        mind = ReflexMind(old)
    reply = await mind.complete(prompt())

    assert reply.text
    assert mind.generation == ""
    assert old.with_name("reflex.npz.set-aside").exists()
    assert ["learnt for other templates" in line["error"] for line in logs] == [True]


def test_frozen_parameters_of_an_earlier_version_are_refused_in_a_sentence(old: Path, tmp_path: Path) -> None:
    """By name, and nothing is changed."""
    digest = hashlib.sha256(old.read_bytes()).hexdigest()
    shelf = FrozenShelf(tmp_path / "shelf")
    shelf.folder.mkdir()
    (shelf.folder / f"{digest}.npz").write_bytes(old.read_bytes())

    with pytest.raises(CheckError, match="no frozen parameters of this version: it was learnt for other templates"):
        shelf.get(digest)


def test_words_of_an_earlier_version_are_forgotten(old: Path) -> None:
    """In the file and in the one that was set aside; what this version learnt stays."""
    load(old)
    save(BanditMemory(noticed=5), old)

    assert forget_old_memory(old) == 1
    assert load(old).noticed == 5
    assert [path.name for path in old.parent.iterdir()] == ["reflex.npz"]


def test_an_old_file_that_was_not_read_yet_is_forgotten(old: Path) -> None:
    """It is of no use to this version."""
    assert forget_old_memory(old) == 1
    assert not old.exists()
    assert forget_old_memory(old) == 0
