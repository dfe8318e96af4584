"""The signature of a report: Ed25519 over every byte before it, in a comment at the page's end."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from conch.errors import CheckError, UsageError
from conch.report.models import Report
from conch.witness import is_without_words, mark_hash

if TYPE_CHECKING:
    from nacl.signing import SigningKey

MOST_BYTES: Final = 256 * 2**20
"""Most bytes of a page that is checked."""
DATA: Final = re.compile(rb'<script type="application/json" id="conch-report">(.*?)</script>', re.DOTALL)
"""Where the report's document stands in its page, with each `<` as `\\u003c`."""
_SEAL: Final = re.compile(rb'<!-- conch-signature key="([A-Za-z0-9+/=]{44})" signature="([A-Za-z0-9+/=]{88})" -->\n\Z')


@dataclass(frozen=True)
class ReportChecked:
    """A page whose signature fits."""

    report: Report
    key: str
    """The public key that fits, base64."""


def sealed(page: str, key: SigningKey) -> bytes:
    """The page in UTF-8 with its signature. The same page and key give the same bytes."""
    content = page.encode()
    signature = base64.b64encode(key.sign(content).signature).decode()
    public = base64.b64encode(bytes(key.verify_key)).decode()
    return content + f'<!-- conch-signature key="{public}" signature="{signature}" -->\n'.encode()


def check(file: Path, key: str | None = None) -> ReportChecked:
    """Check a page: its signature, then the hash of each mark in it. `key`: the public key that must have signed it,
    base64; None: any.

    A mark whose words were removed at a person's request has its hash, and none to be taken anew.

    Raises UsageError for a file that cannot be read or is no report, CheckError where something in it was changed or
    another key signed it.
    """
    page = _read(file)
    found = _SEAL.search(page)
    data = DATA.search(page)
    if data is None:
        raise UsageError(f"{file} is no report: conch report cycle or conch report run makes one")
    if found is None:
        raise CheckError(f"{file} bears no signature at its end: it was cut off, added to, or the signature removed")
    signer = found[1].decode()
    if not _fits(page[: found.start()], signer, found[2]):
        raise CheckError(f"{file} is not what was signed: a byte of it was changed")
    if key is not None and signer != key:
        raise CheckError(f"{file} was signed with the key {signer}, not with {key}")
    try:
        report = Report.model_validate_json(data[1])
    except ValidationError:
        raise UsageError(
            f"{file} holds a report of a version that this one does not know: upgrade conch-agent"
        ) from None
    for mark in report.marks:
        if mark_hash(mark) != mark.hash and not is_without_words(mark):
            raise CheckError(f"{file}: mark {mark.sequence} of {mark.agent} is not what its hash was taken over")
    return ReportChecked(report, signer)


def embedded(report: Report) -> str:
    """The document as it stands in the page: no text in it can end its element."""
    return json.dumps(report.document(), ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _fits(content: bytes, key: str, signature: bytes) -> bool:
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        VerifyKey(base64.b64decode(key, validate=True)).verify(content, base64.b64decode(signature, validate=True))
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            page = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from None
    if len(page) > MOST_BYTES:
        raise UsageError(f"{file} has more than {MOST_BYTES // 2**20} MiB: no report is as large")
    return page
