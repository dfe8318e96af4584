"""Writes requirements.lock anew: .venv/bin/python ops/lock.py [NAME==VERSION ...]

The versions are those of the lock, of this environment for a package that is not in it yet, and those that are named;
none is looked for. Of each package it asks the package index for the hashes of all files of that version, and for its
requirements, and writes down which extras need it on which Python and processor. Files beside the index that pip is
configured with (`find-links`), such as a build of torch for processors alone, are read and hashed too; hashes of such
files that the lock has stay. A package that is needed and has no version is named, and nothing is written.
"""

from __future__ import annotations

import email
import hashlib
import io
import json
import re
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import distributions
from itertools import product
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from requirements import LOCK, NEEDED_BY, entries_of

ROOT = LOCK.parent
INDEX = "https://pypi.org/simple"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
OWN = "conch-agent"
BESIDE = re.compile(r"(nvidia|cuda|triton)\b.*")
"""What builds of torch for graphics cards require. The lock does not hold them, as pip would install them on every
machine: they are as large as everything else together. They come unchecked."""
HEAD = """\
# Written by ops/lock.py: versions and hashes of everything that an install may need, for Python 3.11 to 3.14 on Linux.
# ops/requirements.py selects the lines of an install; `# for:` names the extras that need the package.
"""


@dataclass
class LockedPackage:
    """A version of a package."""

    name: str
    version: Version
    hashes: set[str] = field(default_factory=set)
    requires: tuple[Requirement, ...] = ()
    needed_by: set[str] = field(default_factory=set)
    places: set[tuple[str, str]] = field(default_factory=set)
    """Python and processor of the machines that need it."""

    @property
    def lines(self) -> str:
        """As the lock holds it."""
        hashes = "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(self.hashes))
        return f"{NEEDED_BY}{' '.join(sorted(self.needed_by))}\n{self.name}=={self.version}{self._marker}{hashes}\n"

    @property
    def _marker(self) -> str:
        pythons = {python for python, _ in self.places}
        machines = {machine for _, machine in self.places}
        assert self.places == set(product(pythons, machines)), f"{self.name}: no marker says {sorted(self.places)}"
        terms = []
        if pythons != {*PYTHONS}:
            terms.append(" or ".join(f'python_version == "{python}"' for python in sorted(pythons)))
        if machines != {*MACHINES}:
            terms.append(f'platform_machine == "{machines.pop()}"')
        return f" ; {' and '.join(f'({term})' for term in terms)}" if terms else ""


def main(named: Iterable[str]) -> None:
    """Write the lock. Exits with a sentence where a version is missing."""
    packages = {package.name: package for package in _known(named)}
    beside = _files_beside()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda package: _look_up(package, beside), packages.values()))
    groups = _groups()
    missing = set()
    for group, (python, machine) in product(groups, product(PYTHONS, MACHINES)):
        environment = default_environment() | {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": machine,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
        }
        for name in _closure(groups, group, packages, environment, missing):
            packages[name].needed_by.add(group)
            packages[name].places.add((python, machine))
    if missing:
        sys.exit(f"no version of {', '.join(sorted(missing))} is known: name it, NAME==VERSION")
    needed = sorted((package for package in packages.values() if package.needed_by), key=lambda package: package.name)
    LOCK.write_text(HEAD + "".join(package.lines for package in needed))
    print(f"{LOCK.name}: {len(needed)} packages, {sum(len(package.hashes) for package in needed)} hashes")


def _known(named: Iterable[str]) -> Iterator[LockedPackage]:
    """Every package with a version: named here, in the lock, else installed."""
    known = {canonicalize_name(one.name): (Version(one.version), set[str]()) for one in distributions()}
    pin = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)
    text = LOCK.read_text()
    for lines in [lines for _, lines in entries_of(text)] or text.splitlines():
        name, version = pin.findall(lines)[0]
        known[canonicalize_name(name)] = Version(version), set(re.findall(r"sha256:(\w+)", lines))
    for one in named:
        name, _, version = one.partition("==")
        known[canonicalize_name(name)] = Version(version), set()
    for name, (version, hashes) in known.items():
        if name != OWN:
            yield LockedPackage(name, version, hashes)


def _groups() -> dict[str, list[Requirement]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    lines = {"plain": project["project"]["dependencies"], "build": project["build-system"]["requires"]} | extras
    return {group: [Requirement(line) for line in wanted] for group, wanted in lines.items()}


def _closure(
    groups: dict[str, list[Requirement]],
    group: str,
    packages: dict[str, LockedPackage],
    environment: dict[str, str],
    missing: set[str],
) -> set[str]:
    """The packages that a group needs in an environment; those without a version go to `missing`."""
    todo, seen = [(requirement, frozenset({""})) for requirement in groups[group]], set[tuple[str, str]]()
    while todo:
        requirement, active = todo.pop()
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate(environment | {"extra": extra}) for extra in active):
            continue
        if name == OWN:
            todo += [(one, frozenset({""})) for extra in requirement.extras for one in groups[extra]]
        elif BESIDE.fullmatch(name):
            continue
        elif name not in packages or not packages[name].hashes:
            missing.add(name)
        else:
            assert requirement.specifier.contains(packages[name].version, prereleases=True), f"{requirement} is wanted"
            extras = {"", *requirement.extras}
            if not {(name, extra) for extra in extras} <= seen:
                seen |= {(name, extra) for extra in extras}
                todo += [(one, frozenset(extras)) for one in packages[name].requires]
    return {name for name, _ in seen}


def _look_up(package: LockedPackage, beside: list[Path]) -> None:
    """Its hashes and requirements; it keeps what it has where the index does not know it."""
    try:
        found = json.loads(_read(f"{INDEX}/{package.name}/", "application/vnd.pypi.simple.v1+json"))
    except OSError:
        return
    files = [file for file in found["files"] if _version(file["filename"]) == package.version]
    package.hashes |= {file["hashes"]["sha256"] for file in files}
    for path in beside:
        if canonicalize_name(path.name.split("-")[0]) == package.name and _is_build_of(_version(path.name), package):
            package.hashes.add(hashlib.sha256(path.read_bytes()).hexdigest())
    wheels = [file["url"] for file in files if file["filename"].endswith(".whl")]
    linux = [url for url in wheels if "manylinux" in url or "none-any" in url]
    for url in (linux or wheels)[:1]:
        metadata = email.message_from_bytes(_metadata(url))
        package.requires = tuple(map(Requirement, metadata.get_all("Requires-Dist") or ()))


def _metadata(wheel: str) -> bytes:
    """Of a wheel at this address: in a file beside it, where the index has one, else in the wheel."""
    try:
        return _read(f"{wheel}.metadata")
    except OSError:
        with zipfile.ZipFile(io.BytesIO(_read(wheel))) as content:
            [name] = [name for name in content.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            return content.read(name)


def _is_build_of(version: Version | None, package: LockedPackage) -> bool:
    return version is not None and version.public == package.version.public


def _files_beside() -> list[Path]:
    asked = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    places = {place for words in re.findall(r"find-links='([^']*)'", said) for place in words.split()}
    return [path for place in places for path in Path(place).glob("*.whl")]


def _version(filename: str) -> Version | None:
    try:
        parse: Any = parse_wheel_filename if filename.endswith(".whl") else parse_sdist_filename
        return Version(str(parse(filename)[1]))
    except ValueError:
        return None


def _read(url: str, accept: str = "*/*") -> bytes:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


if __name__ == "__main__":
    main(sys.argv[1:])
