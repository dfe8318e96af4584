"""Make what a deployment needs and no repository may hold: settings, a key for each part, passwords.

python ops/prepare.py [DIRECTORY], which is ops/deployment where none is named. What stands there already stays. The
directory is its owner's alone; in it files are readable to all, because a container has a user of its own and is given
single files.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import subprocess
import sys
from pathlib import Path

from conch.home import write_whole

CONCH = Path(sys.executable).with_name("conch")
BROKER_USER = "conch"
"""Who the bridge is at the broker."""
ROUNDS = 10_000
"""Of PBKDF2 in Mosquitto's file: the password is random already."""


def prepare(place: Path) -> None:
    """Fill `place`. Twice is once. Raises CalledProcessError where `conch` refuses, OSError."""
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o700)
    _conch("init", "--home", str(place))
    (place / "conch.yaml").chmod(0o644)
    permissions = _conch("bus", "permissions", "--home", str(place), CONCH_EDGE__BRIDGE="mqtt://mosquitto")
    _put(place / "permissions.conf", permissions)
    for key in (place / "keys").iterdir():
        key.chmod(0o444)
    (place / "keys").chmod(0o755)
    if not (place / "mqtt.env").exists():
        password = secrets.token_urlsafe(24)
        _put(place / "mosquitto.passwords", f"{BROKER_USER}:{hashed(password)}\n")
        _put(place / "mqtt.env", f"CONCH_EDGE__USER={BROKER_USER}\nCONCH_EDGE__PASSWORD={password}\n")
    for name, text in (("dashboard.env", "CONCH_UI__TOKEN={}\n"), ("grafana.password", "{}\n")):
        if not (place / name).exists():
            _put(place / name, text.format(secrets.token_urlsafe(24)))


def _put(file: Path, text: str) -> None:
    write_whole(file, text)
    file.chmod(0o444)


def hashed(password: str) -> str:
    """The password as `mosquitto_passwd` writes it down: PBKDF2 with SHA-512 over a salt of 12 bytes."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ROUNDS)
    return f"$7${ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _conch(*command: str, **environment: str) -> str:
    done = subprocess.run(
        [CONCH, *command], env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    try:
        prepare(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "deployment")
    except subprocess.CalledProcessError as refused:  # it has said why
        sys.exit(refused.returncode)
    except OSError as error:
        sys.exit(f"conch: {error.filename} cannot be written ({error.strerror}): name another directory")
