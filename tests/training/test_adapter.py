"""An adapter's files: what is served is plain, whole and finite LoRA, kept by its digest."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from conch.errors import CheckError
from conch.training import CONFIG, WEIGHTS, AdapterIdentity, AdapterShelf, ProbeLine, check_weights, served_name
from conch_schemas import PromptMessage
from tests.training.conftest import MODULES, matrices, safetensors

if TYPE_CHECKING:
    from tests.training.conftest import MakeAdapter

Q = f"base_model.model.{MODULES[0]}.lora_B.weight"


def test_a_plain_adapter_is_known_by_rank_modules_and_norm(make_adapter: MakeAdapter) -> None:
    """The norm of B alone: B is zero in an adapter that changes nothing."""
    found = check_weights(make_adapter())
    untrained = {name: values * (".lora_A" in name) for name, values in matrices().items()}

    assert (found.rank, found.alpha, found.modules) == (2, 4.0, tuple(sorted(MODULES)))
    assert found.norm > 0
    assert check_weights(make_adapter("zero", tensors=untrained)).norm == 0


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"use_dora": True}, "use_dora is set"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save is set"),
        ({"rank_pattern": {"q_proj": 4}}, "rank_pattern is set"),
        ({"r": 4}, "another rank"),
        ({"r": 100_000}, "is not from 1 to 256"),
        ({"lora_alpha": float("inf")}, "no number above 0"),
        ({"target_modules": ["q_proj"]}, "which its configuration does not name"),
        ({"target_modules": ".*"}, "no list of names"),
    ],
)
def test_what_servers_would_not_apply_as_trained_is_refused(
    make_adapter: MakeAdapter, config: dict[str, object], why: str
) -> None:
    """With the name of the setting."""
    with pytest.raises(CheckError, match=why):
        check_weights(make_adapter(config=config))


def test_values_that_are_no_numbers_are_refused(make_adapter: MakeAdapter) -> None:
    """One is enough."""
    broken = matrices()
    broken[Q][0, 0] = np.nan

    with pytest.raises(CheckError, match="values that are no numbers"):
        check_weights(make_adapter(tensors=broken))


@pytest.mark.parametrize("name", ["base_model.model.lm_head.lora_A.weight", "model.layers.0.weight", "../../x"])
def test_tensors_that_are_no_lora_matrices_of_linear_layers_are_refused(make_adapter: MakeAdapter, name: str) -> None:
    """Whole weights, the last layer, names that are paths."""
    with pytest.raises(CheckError, match="only LoRA matrices"):
        check_weights(make_adapter(tensors=matrices() | {name: np.zeros((2, 8))}))


def test_a_matrix_without_its_other_half_is_refused(make_adapter: MakeAdapter) -> None:
    """A without B."""
    with pytest.raises(CheckError, match="lacks one of the two"):
        check_weights(make_adapter(tensors={name: one for name, one in matrices().items() if name != Q}))


def test_a_file_that_is_cut_short_anywhere_is_refused(make_adapter: MakeAdapter) -> None:
    """At every length."""
    whole = safetensors(matrices())
    folder = make_adapter()
    for length in range(0, len(whole), 7):
        (folder / WEIGHTS).write_bytes(whole[:length])
        with pytest.raises(CheckError):
            check_weights(folder)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 50_000,
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
        b'{"a": {"dtype": "PICKLE", "shape": [2, 2], "data_offsets": [0, 16]}}',
        b'{"a": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}}',
        b"\xff\xfe",
    ],
)
def test_a_hostile_header_is_refused_in_a_sentence(make_adapter: MakeAdapter, header: bytes) -> None:
    """Deep, of other types, of negative sizes, no text."""
    with pytest.raises(CheckError):
        check_weights(make_adapter(data=struct.pack("<Q", len(header)) + header + b"\0" * 64))


def test_a_header_that_says_to_be_huge_is_not_read(make_adapter: MakeAdapter) -> None:
    """Its length is compared with the file's before memory is taken."""
    with pytest.raises(CheckError, match="no safetensors file"):
        check_weights(make_adapter(data=struct.pack("<Q", 2**60) + b"{}"))


def test_the_same_adapter_is_on_the_shelf_once(
    make_adapter: MakeAdapter, identity: AdapterIdentity, tmp_path: Path
) -> None:
    """Under its digest, which covers weights, configuration and identity."""
    shelf, folder = AdapterShelf(tmp_path / "adapters"), make_adapter()

    first, again = shelf.put(folder, identity), shelf.put(folder, identity)
    other = shelf.put(folder, identity.model_copy(update={"agentuid": "22222222-1111-4111-8111-111111111111"}))

    assert first == again
    assert first.digest != other.digest
    assert shelf.digests() == sorted([first.digest, other.digest])
    assert served_name(first.digest) == f"conch-{first.digest[:16]}"


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, "conch.json"])
def test_an_adapter_that_was_changed_on_the_shelf_is_not_used(
    make_adapter: MakeAdapter, identity: AdapterIdentity, tmp_path: Path, name: str
) -> None:
    """Its weights exchanged for others, its configuration or its identity edited."""
    shelf = AdapterShelf(tmp_path / "adapters")
    kept = shelf.put(make_adapter(), identity)
    path = kept.folder / name
    if name == WEIGHTS:
        path.write_bytes(safetensors(matrices(0.2)))
    elif name == CONFIG:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"lora_alpha": 64}))
    else:
        path.write_text(identity.model_copy(update={"generation": 9}).model_dump_json())

    with pytest.raises(CheckError, match="was changed"):
        shelf.get(kept.digest)


def test_replies_of_each_engine_are_kept_beside_the_adapter(
    make_adapter: MakeAdapter, identity: AdapterIdentity, tmp_path: Path
) -> None:
    """Its digest stays: they are what an engine said of it."""
    shelf = AdapterShelf(tmp_path / "adapters")
    kept = shelf.put(make_adapter(), identity)
    line = ProbeLine(messages=(PromptMessage(role="user", content="?"),), base="no", adapter="yes")

    shelf.record_probe(kept.digest, "llama.cpp", [line])

    assert shelf.get(kept.digest).probe("llama.cpp") == (line,)
    assert shelf.get(kept.digest).probe("vllm") == ()


def test_only_what_is_kept_stays_on_the_shelf(
    make_adapter: MakeAdapter, identity: AdapterIdentity, tmp_path: Path
) -> None:
    """Retention names what stays."""
    shelf, folder = AdapterShelf(tmp_path / "adapters"), make_adapter()
    first = shelf.put(folder, identity)
    second = shelf.put(folder, identity.model_copy(update={"generation": 2}))

    assert shelf.keep([second.digest]) == [first.digest]
    assert shelf.digests() == [second.digest]
    with pytest.raises(CheckError, match="there is no adapter"):
        shelf.get(first.digest)
