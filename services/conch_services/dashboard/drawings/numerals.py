"""Numbers as a page shows them: as `conch.views` writes them, with a minus sign in place of the hyphen.

A page's scripts follow the same rule (`signed` and `fixed` in words.js).
"""

from __future__ import annotations

from conch.views import fixed as plain_fixed
from conch.views import signed as plain_signed

MINUS = "\N{MINUS SIGN}"
"""As wide as a plus, where figures stand below each other; a hyphen is not."""


def signed(value: float, digits: int = 3) -> str:
    """`value` with its sign and `digits` decimals: `+0.450`, `−0.450`; what rounds to zero is `+0.000`."""
    return plain_signed(value, digits).replace("-", MINUS)


def fixed(value: float, digits: int) -> str:
    """`value` with `digits` decimals, a half away from zero: 0.5625 is `0.563`; what rounds to zero has no sign."""
    return plain_fixed(value, digits).replace("-", MINUS)
