"""What the training child refuses: one clear sentence, no adapter, and whether a second attempt can help."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from conch.data import Format, Row
from conch.errors import CheckError, ConchError, UsageError
from conch.training import ReplaySource, TrainingStep
from conch.training.child.failures import TrainingRefusedError, failure_of
from conch.training.tiny import make_tiny_model
from tests.training.child.conftest import (
    FILES,
    Child,
    MakeJob,
    Snapshot,
    Trained,
    asked,
    good,
    prompt_of,
    result_of,
    row,
    rows_of_format,
    said,
)


def test_a_snapshot_that_was_edited_is_refused(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """Its manifest, or the bytes of a file."""
    new = snapshot("sft", rows_of_format("sft", range(1)))
    file = new / "train-00000.parquet"
    file.write_bytes(file.read_bytes()[:-1] + b"x")

    with pytest.raises(CheckError, match=r"train-00000\.parquet was edited: its digest is not that of the manifest"):
        trained(job(snapshot=new))

    (new / "manifest.json").write_text((new / "manifest.json").read_text().replace('"rows_in":8', '"rows_in":9'))
    with pytest.raises(CheckError, match="was edited"):
        trained(job(snapshot=new))


def test_no_snapshot_is_said(job: MakeJob, trained: Trained, tmp_path: Path) -> None:
    """With the command that makes one."""
    with pytest.raises(UsageError, match=r"there is no snapshot at .*nowhere: conch data export makes one"):
        trained(job(snapshot=tmp_path / "nowhere"))


def test_a_snapshot_of_another_format_is_refused(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """Columns of one method are not those of another; also in replay."""
    pairs = snapshot("dpo", rows_of_format("dpo", range(1)), "pairs")
    new = snapshot("sft", rows_of_format("sft", range(1)))

    with pytest.raises(TrainingRefusedError, match="has rows of dpo, and sft is to be trained"):
        trained(job(snapshot=pairs))
    with pytest.raises(TrainingRefusedError, match="pairs has rows of dpo"):
        trained(job(snapshot=new, replay=(ReplaySource(snapshot=pairs, share=0.1),)))


def _equal_pair(file: str) -> Row:
    columns = {"prompt": asked(file), "chosen": said(good(file)), "rejected": said(good(file))}
    return row("dpo", columns, file)


def _same_reply(file: str) -> Row:
    return row("sft", {"prompt": asked(file), "completion": said("DO_NOTHING: rest")}, file)


def _good_alone(file: str) -> Row:
    return row("kto", {"prompt": asked(file), "completion": said(good(file)), "label": True}, file)


@pytest.mark.parametrize(
    ("format", "make", "reason"),
    [
        ("sft", None, "has no rows to train on: its manifest says what was left out and why"),
        ("sft", _same_reply, "all 8 rows of .* have equal replies: the model would learn one answer"),
        ("dpo", _equal_pair, "all 8 pairs of .* have two equal replies: nothing is preferred"),
        ("kto", _good_alone, "all 8 rows of .* are good: KTO learns from the difference"),
    ],
)
def test_rows_without_a_difference_teach_nothing(
    format: Format,
    make: Callable[[str], Row] | None,
    reason: str,
    job: MakeJob,
    trained: Trained,
    snapshot: Snapshot,
) -> None:
    """None, all equal, pairs of equals, labels of one kind."""
    new = snapshot(format, map(make, FILES) if make is not None else [])

    with pytest.raises(TrainingRefusedError, match=reason):
        trained(job(method=format, snapshot=new))


def test_rows_that_are_all_too_long_are_refused(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """With the length of the longest."""
    new = snapshot("sft", rows_of_format("sft", range(1)))

    with pytest.raises(TrainingRefusedError, match=r"all 7 rows have more than 20 tokens, the longest \d+: raise the"):
        trained(job(snapshot=new, max_tokens=20))


@pytest.mark.parametrize(
    ("field", "what"),
    [("base_digest", "base"), ("tokenizer_digest", "tokenizer"), ("template_digest", "chat template")],
)
def test_another_base_than_the_lineages_is_refused(
    field: str, what: str, job: MakeJob, trained: Trained, snapshot: Snapshot
) -> None:
    """By its weights, its tokenizer or its chat template."""
    new = snapshot("sft", rows_of_format("sft", range(1)))

    with pytest.raises(TrainingRefusedError, match=f"the {what} of .* is .*…, and the job is for 000000000000…"):
        trained(job(snapshot=new, **{field: "0" * 64}))


def test_a_base_that_is_none_is_refused(job: MakeJob, trained: Trained, snapshot: Snapshot, tmp_path: Path) -> None:
    """No directory, no GGUF file, weights cut short, one without a chat template."""
    new = snapshot("sft", rows_of_format("sft", range(1)))
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 40)
    cut = make_tiny_model(tmp_path / "cut", [prompt_of("a.md")], vocabulary=300, steps=0)
    with (cut / "model.safetensors").open("r+b") as weights:
        weights.truncate(5000)
    mute = make_tiny_model(tmp_path / "mute", [prompt_of("a.md")], vocabulary=300, steps=0)
    (mute / "chat_template.jinja").unlink()

    for base, reason in (
        (tmp_path / "none", "there is no base at .*none: name a GGUF file"),
        (broken, r"the base .*broken\.gguf cannot be loaded"),
        (cut, "the base .*cut cannot be loaded: .*header"),
        (mute, "the base .*mute has no chat template"),
    ):
        with pytest.raises(TrainingRefusedError, match=reason):
            trained(job(snapshot=new, base=base))


def test_a_learning_rate_that_blows_up_ends_it(
    job: MakeJob, trained: Trained, snapshot: Snapshot, tiny: Path, tmp_path: Path
) -> None:
    """A loss that is not finite, at the step where it is seen; transformers would log a mean instead."""
    from safetensors.torch import load_file, save_file

    base = tmp_path / "base"
    base.mkdir()
    for file in tiny.iterdir():
        (base / file.name).write_bytes(file.read_bytes())
    tensors = load_file(base / "model.safetensors")
    tensors["lm_head.weight"][5] = float("nan")
    save_file(tensors, base / "model.safetensors", {"format": "pt"})
    new = snapshot("sft", [one for one in rows_of_format("sft", range(1)) if one.split == "train"])

    with pytest.raises(TrainingRefusedError, match=r"the loss is nan at step 1 of \d+: lower the learning rate, 0\.01"):
        trained(job(snapshot=new, base=base))


def test_a_model_that_leaves_its_base_is_stopped(job: MakeJob, trained: Trained, snapshot: Snapshot) -> None:
    """At the first evaluation above the cap: what is kept is from before it; else there is no adapter."""
    new = snapshot("sft", rows_of_format("sft", range(4)))
    free = [one.kl for one in trained(job(snapshot=new)) if isinstance(one, TrainingStep) and one.kl is not None]

    kept = result_of(trained(job(snapshot=new, out=job(snapshot=new).out.with_name("kept"), kl_cap=free[0] + 0.01)))

    assert free[1] > free[0] + 0.01
    assert kept.stopped == "KL"
    assert kept.figures["best_step"] == 4
    assert kept.figures["kl"] == free[0]
    with pytest.raises(TrainingRefusedError, match=r"at step 4, above the cap of 0\.01: lower the learning rate"):
        trained(job(snapshot=new, out=job(snapshot=new).out.with_name("none"), kl_cap=0.01))


def test_a_killed_training_goes_on_from_its_last_checkpoint(
    job: MakeJob, trained: Trained, child: Child, snapshot: Snapshot, tmp_path: Path
) -> None:
    """To the bytes that a training in one piece has. A checkpoint that was cut short does not count."""
    new = snapshot("sft", rows_of_format("sft", range(4)))
    whole = result_of(trained(job(snapshot=new, out=tmp_path / "whole")))
    killed = child(job(snapshot=new), kill_after=9)
    assert killed.status == -9
    assert not (tmp_path / "adapter").exists()
    last = tmp_path / ".adapter.work" / "sft" / "checkpoint-8"
    cut = tmp_path / ".adapter.work" / "sft" / "checkpoint-99"
    cut.mkdir()
    (cut / "optimizer.pt").write_bytes(b"half")
    assert last.is_dir()

    result = child(job(snapshot=new)).result

    assert result.resumed
    assert result.weights_sha256 == whole.weights_sha256
    assert result.figures == pytest.approx(whole.figures)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["adapter", "data", "whole"]


def test_a_job_that_has_an_adapter_already_is_refused(job: MakeJob, trained: Trained, tmp_path: Path) -> None:
    """Nothing is overwritten."""
    (tmp_path / "adapter").mkdir()

    with pytest.raises(UsageError, match=r"there is an adapter at .*adapter already"):
        trained(job(snapshot=tmp_path))


def test_too_little_memory_is_said_with_the_limit(job: MakeJob, child: Child, snapshot: Snapshot) -> None:
    """The process asks for more than its limit and is refused by the system; the machine is left alone."""
    new = snapshot("sft", rows_of_format("sft", range(1)))

    refused = child(job(snapshot=new, memory_mib=256)).failure
    least = int(refused.reason.partition("take ")[2].partition(" MiB")[0])
    limit = least + 64  # a build of torch for graphics cards takes twice what one for processors takes
    failed = child(job(snapshot=new, memory_mib=limit)).failure

    assert failed.reason.startswith(f"training needs more than the {limit} MiB that it may use: a smaller batch")
    assert not failed.can_retry


def test_a_limit_below_what_the_libraries_take_is_said(job: MakeJob, child: Child, snapshot: Snapshot) -> None:
    """A smaller batch would not help there: the limit has to be higher."""
    new = snapshot("sft", rows_of_format("sft", range(1)))

    failed = child(job(snapshot=new, memory_mib=256)).failure

    assert re.fullmatch(
        r"the libraries of training take \d+ MiB here, and training may use 256: set training.memory_mib higher, "
        r"or free some memory",
        failed.reason,
    )
    assert not failed.can_retry


@pytest.fixture
def small_disk(tmp_path: Path, lacking: Callable[[str], NoReturn]) -> Iterator[Path]:
    """A directory on a disk of 512 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        lacking("a file system cannot be mounted here: run the tests as root, in a container that may mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def test_a_full_disk_is_said_and_can_be_tried_again(
    job: MakeJob, trained: Trained, snapshot: Snapshot, small_disk: Path
) -> None:
    """There is no adapter, and its name is free."""
    wanted = job(snapshot=snapshot("sft", rows_of_format("sft", range(1))), out=small_disk / "adapter", probes=0)

    with pytest.raises(Exception) as raised:  # of the library that was writing
        trained(wanted)

    assert failure_of(raised.value, wanted) == (
        f"the disk of {small_disk} is full: free some space, then train again",
        True,
    )
    assert not wanted.out.exists()


@pytest.mark.parametrize(
    ("error", "reason", "can_retry"),
    [
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "the disk of .* is full", True),
        (MemoryError(), "training needs more than the memory that is free", True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 12 bytes"), "training needs more than", True),
        (ConchError("It is so."), r"It is so\.", False),
        (ZeroDivisionError("division\nby zero"), "training failed with ZeroDivisionError: division by zero", True),
    ],
)
def test_an_error_becomes_one_sentence(
    error: Exception, reason: str, can_retry: bool, job: MakeJob, tmp_path: Path
) -> None:
    """What was raised, by whichever library, and whether a second attempt can help."""

    found = failure_of(error, job(snapshot=tmp_path))

    assert re.match(reason, found[0])
    assert "\n" not in found[0]
    assert found[1] is can_retry


@pytest.mark.parametrize(
    ("memory_mib", "reason"),
    [(600, "training needs more than the 600 MiB that it may use"), (None, "training failed with RuntimeError")],
)
def test_a_refused_thread_is_too_little_memory_only_under_a_limit(
    memory_mib: int | None, reason: str, job: MakeJob, tmp_path: Path
) -> None:
    """A thread's stack is memory; without a limit the system refuses a thread for another reason."""
    error = RuntimeError("Failed to launch worker thread: Resource temporarily unavailable")

    assert failure_of(error, job(snapshot=tmp_path, memory_mib=memory_mib))[0].startswith(reason)


def test_a_line_that_is_no_job_is_refused(child: Child, job: MakeJob, tmp_path: Path) -> None:
    """The child says so, and ends."""

    class Broken:
        def encode(self) -> bytes:
            return json.dumps({"kind": "train", "method": "magic"}).encode() + b"\n"

    wrong: Any = Broken()

    line = Broken().encode()
    assert child(wrong).failure.reason.startswith(f"a line of {len(line)} bytes is not a training job")
