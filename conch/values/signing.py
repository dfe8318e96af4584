"""Ed25519 signatures of the values file, stored beside it in a file that ends in `.sig`.

A signature does not protect against a person with write access to the file, its signature and the key in the settings:
keep the secret key outside the home. The marks record in any case which values were in force.
"""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from conch.errors import ConfigError, UsageError
from conch.files import open_plain
from conch.home import write_whole

MOST_BYTES = 1024
"""Most bytes of a key or a signature in base64: 44 and 88 characters."""


def signature_of(file: Path) -> Path:
    """The signature file of a file."""
    return file.with_name(file.name + ".sig")


def check(data: bytes, file: Path, key: str) -> None:
    """Verify the signature beside `file` against its bytes. Raises ConfigError where it is invalid."""
    beside = signature_of(file)
    sign = f"whoever stands for it signs it anew: conch values sign {file}"
    try:
        signature = base64.b64decode(_text(beside), validate=True)
        VerifyKey(base64.b64decode(key, validate=True)).verify(data, signature)
    except OSError as error:
        raise ConfigError(f"values.file: the signature {beside} cannot be read ({error.strerror}): {sign}") from None
    except (BadSignatureError, ValueError):  # ValueError: not base64, or a wrong length
        raise ConfigError(
            f"values.file: {file} is not what was signed with the secret part of values.key: put back the file that "
            f"was, or {sign}"
        ) from None


def sign(file: Path, secret: Path) -> str:
    """Write the signature of `file` beside it, with the key in `secret`, which is made where it is missing.

    Returns the public key, base64. Signing again writes the same. Raises UsageError where the secret key or the
    signature cannot be read or written.
    """
    key = _secret(secret)
    beside = signature_of(file)
    try:
        write_whole(beside, base64.b64encode(key.sign(file.read_bytes()).signature).decode() + "\n")
    except OSError as error:
        raise UsageError(f"the signature {beside} cannot be written ({error.strerror}): sign where it can") from None
    return base64.b64encode(bytes(key.verify_key)).decode()


def _secret(file: Path) -> SigningKey:
    try:
        with contextlib.suppress(FileNotFoundError):
            return SigningKey(base64.b64decode(_text(file), validate=True))
        made = SigningKey.generate()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as stream:
            stream.write(base64.b64encode(bytes(made)).decode() + "\n")
            stream.flush()
            os.fsync(handle)
    except OSError as error:
        raise UsageError(
            f"the secret key {file} cannot be read or made ({error.strerror}): name another --key"
        ) from None
    except ValueError:
        raise UsageError(f"{file} holds no secret key (32 bytes in base64): name another --key") from None
    return made


def _text(file: Path) -> bytes:
    with open_plain(file) as stream:
        return stream.read(MOST_BYTES).strip()
