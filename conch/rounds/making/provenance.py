"""Whether an adapter is what its round planned: of its base, its data and its agent, and of no held-out state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from conch.data import read_manifest, trained_states, verify_files
from conch.errors import CheckError
from conch.forks import RecordedCycle
from conch.home import Home
from conch.rounds.making.plan import RoundPlan, data_folder
from conch.training import CONFIG, WEIGHTS, AdapterIdentity, TrainingResult


def refuse_other(plan: RoundPlan, result: TrainingResult, made: Path) -> None:
    """Refuse a training whose result is not of the plan, or whose files in `made` are not those of the result.

    Raises CheckError, in one sentence; OSError where a file cannot be read.
    """
    if result.snapshot_digest != plan.snapshot:
        raise CheckError(
            f"it was trained on the data {result.snapshot_digest[:12]}, its round is of {plan.snapshot[:12]}: the data "
            "set was changed meanwhile; begin another round"
        )
    if plan.base_digest is not None and result.digests.base != plan.base_digest:
        raise CheckError(
            f"it was trained for the base {result.digests.base[:12]}, the lineage is of {plan.base_digest[:12]}: an "
            "adapter fits one base alone"
        )
    for name, said in ((WEIGHTS, result.weights_sha256), (CONFIG, result.config_sha256)):
        with (made / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != said:
            raise CheckError(
                f"{made / name} has the digest {found[:12]}, its training wrote {said[:12]}: it was changed"
            )


def refuse_foreign(plan: RoundPlan, identity: AdapterIdentity) -> None:
    """Refuse an adapter that another agent, or another round's data, made. Raises CheckError."""
    if (identity.agentuid, identity.round, identity.snapshot) != (plan.agentuid, plan.round, plan.snapshot):
        raise CheckError(
            f"the adapter is of the agent {identity.agentuid}, round {identity.round[:12]} and data "
            f"{identity.snapshot[:12]}; this round is {plan.round[:12]} of {plan.agentuid} on {plan.snapshot[:12]}"
        )


def refuse_leaked(home: Home, plan: RoundPlan, held_out: Iterable[RecordedCycle]) -> None:
    """Refuse a round one of whose data sets trains on a state of a held-out decision, whatever its plan says.

    Raises CheckError, also where a data set is gone or was changed: then it cannot be said.
    """
    judged = {one.act.decoding.state_key for one in held_out if one.act.decoding is not None} - {""}
    for name in (plan.snapshot_name, plan.format_snapshot_name, plan.replay):
        if name is None:
            continue
        place = data_folder(home) / name
        if not place.is_dir():
            raise CheckError(f"the data set {name} is no longer in {place.parent}: what was trained on is not known")
        manifest = read_manifest(place)
        verify_files(place, manifest)
        if name == plan.snapshot_name and manifest.digest != plan.snapshot:
            raise CheckError(f"the data set {name} is {manifest.digest[:12]}, the round is of {plan.snapshot[:12]}")
        leaked = judged & trained_states(place, manifest)
        if leaked:
            raise CheckError(
                f"the data set {name} trains on {len(leaked)} of the {len(judged)} held-out states, such as "
                f"{min(leaked)}: the gate would judge what was learnt by heart"
            )
