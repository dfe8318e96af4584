"""ops/Dockerfile and what it runs under: as far as that can be seen without Docker."""

from __future__ import annotations

import fnmatch
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.ops.containers import OPS, PROGRAMS

if TYPE_CHECKING:
    from conch_schemas import JsonObject


ROOT = OPS.parent
DOCKERFILE = OPS / "Dockerfile"


def instructions(word: str) -> list[str]:
    """What the Dockerfile says behind `word`, continued lines as one."""
    whole = DOCKERFILE.read_text().replace("\\\n", " ")
    return re.findall(rf"(?:^|\s){word} (.+)$", whole, re.MULTILINE)


def from_here() -> list[str]:
    """What is copied from the repository."""
    copied = [line.split() for line in instructions("COPY") if not line.startswith("--from")]
    return [source for *sources, _ in copied for source in sources]


def ignored(path: str) -> bool:
    """Whether the build is not given it: the last line that fits counts."""
    lines = (OPS / "Dockerfile.dockerignore").read_text().split()
    fits = [line for line in lines if any(_fits(path, line.lstrip("!")) for path in _above(path))]
    return bool(fits) and not fits[-1].startswith("!")


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]


def _fits(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern.removeprefix("**/")) if "/" not in path or "/" in pattern else False


def test_the_linter_has_nothing_to_say() -> None:
    """hadolint, every rule of it."""
    done = subprocess.run([PROGRAMS / "hadolint", DOCKERFILE], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "")


def test_the_build_is_given_what_it_copies_and_no_secret() -> None:
    """Every source is there and not ignored; what ops/prepare.py makes is."""
    assert {"conch", "services", "schemas", "requirements.lock"} <= set(from_here())
    assert all((ROOT / source).exists() for source in from_here())
    assert not [source for source in from_here() if ignored(source)]
    assert all(ignored(path) for path in ("ops/deployment/keys", "ops/deployment/mqtt.env", "tests", ".venv", ".git"))


def test_what_is_copied_makes_the_whole_package(tmp_path: Path) -> None:
    """Its extras are declared, each requirement stands in the lock, and `conch` from there knows its version."""
    for source in from_here():
        target = tmp_path / "src" / source
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        copy(ROOT / source, target)
    [installs] = [line for line in instructions("RUN") if " pip install" in line.replace("/bin/pip", " pip")]
    words = shlex.split(installs)
    [package] = [word for word in words if word.startswith(".[")]
    extras = package.removeprefix(".[").removesuffix("]").split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    select = [sys.executable, tmp_path / "src/ops/requirements.py", *extras]
    selected = subprocess.run(select, check=True, capture_output=True, text=True).stdout
    locked = {canonicalize_name(line.partition("==")[0]) for line in selected.splitlines() if "==" in line}

    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "there", tmp_path / "src"], check=True, capture_output=True)

    assert f"python ops/requirements.py {' '.join(extras)} >/tmp/requirements" in installs
    assert "--require-hashes --no-deps -r /tmp/requirements" in installs
    assert not [line for line in asked if canonicalize_name(Requirement(line).name) not in locked]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "there")}
    code = "import conch, conch_services as s; from conch.cli.main import main; print(conch.__file__, *s.__path__)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert all(word.startswith(str(tmp_path)) for word in done.stdout.split()), done
    ours = {str(path.relative_to(ROOT / "services")) for path in (ROOT / "services/conch_services").rglob("*.*")}
    theirs = {str(path.relative_to(tmp_path / "there")) for path in (tmp_path / "there").rglob("*.*")}
    assert not [name for name in ours - theirs if not name.endswith(".pyc")]


def test_what_it_starts_is_there_and_is_nobody_of_importance() -> None:
    """The entry point's programs, the health check's file; a user with a number, which a cluster can tell from root."""
    scripts = {point.name for point in importlib.metadata.entry_points(group="console_scripts")}
    installed = " ".join(instructions("RUN"))

    assert json.loads(instructions("ENTRYPOINT")[-1]) == ["tini", "--", "conch"]
    assert "conch" in scripts
    assert all(re.search(rf"install .*\b{program}\b", installed) for program in ("tini", "bubblewrap", "git"))
    [health] = [json.loads(line) for line in instructions("CMD") if "agent-answers" in line]
    assert (OPS / "container" / Path(health[-1]).name).exists()
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", instructions("USER")[-1])
    assert all(re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+( AS \w+)?", image) for image in instructions("FROM"))


@pytest.mark.parametrize(("ours", "starts"), [(True, True), (False, False)], ids=["with its rule", "Docker's own"])
def test_the_sandbox_starts_under_the_profile_of_system_calls(
    ours: bool, starts: bool, sandboxed: Callable[[JsonObject], subprocess.CompletedProcess[str]]
) -> None:
    """Docker's own profile, which is all of it but the last rule, lets no bubblewrap make a sandbox; that rule does."""
    profile = json.loads((OPS / "compose" / "seccomp.json").read_text())
    profile["syscalls"] = profile["syscalls"] if ours else profile["syscalls"][:-1]

    done = sandboxed(profile)

    assert (done.returncode == 0) is starts, done.stderr
    assert starts or done.stderr.startswith("bwrap: "), done.stderr
