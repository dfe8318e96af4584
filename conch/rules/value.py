"""The meaning of what a rule returned: the one reading of it for a run, a backfill, a test and a trainer. Pure.

A number is what stands for one real number: Python's int, float and bool, Decimal, Fraction, the scalars of NumPy, and
arrays and tensors without dimensions of any library. No array library is imported: its values are asked by `shape`,
`dtype` and `item()`.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from conch.text import safe_text

S = TypeVar("S", bound=BaseModel)

WORDS: Final = 500
"""Characters of an explanation that are kept."""
_SHOWN: Final = 80
_NO_NUMBERS: Final = (str, bytes, bytearray, memoryview, complex)
"""Types that are no numbers, though a conversion may exist."""
_TIMES: Final = ("m", "M")
"""NumPy's kinds of durations and dates, which convert to a number of their unit."""
_NESTED: Final = 2
"""Times that `item()` is asked: an array of objects holds a scalar, which holds Python's number."""


def meaning_of(result: Any) -> tuple[float | str | None, str]:
    """(value, why) of what a rule returned, which is a value or a tuple (value, text or None).

    The value is a finite number, None (not applicable), or the text by which anything else is shown. Why is safe text
    of one line, empty where the rule says nothing.
    """
    why = ""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str | None):
        result, why = result[0], safe_text(result[1] or "", one_line=True)[:WORDS]
    if result is None:
        return None, why
    number = number_of(result)
    return (_shown(result) if number is None else number), why


def refusal_of(value: float | str, low: float, high: float) -> str | None:
    """Why a value of `meaning_of` is no score in low..high, without its end; None: it is one. `value` may come from
    another process, and be any number."""
    if isinstance(value, str) or not math.isfinite(value):
        return f"returned {value}, not a finite number or None"
    if not low <= value <= high:
        return f"returned {value!r}, outside its range {low:g}..{high:g}"
    return None


def state_and_value(result: Any, model: type[S]) -> tuple[S, Any]:
    """What a rule with a state returned. Raises TypeError for anything but (state, value)."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], model)):
        raise TypeError(f"returned {_shown(result)}, not ({model.__name__}, a number or None)")
    return result


def number_of(value: Any) -> float | None:
    """The value as a finite number (True is 1, False is 0); None: it is none. Raises no Exception."""
    try:
        number = _converted(value, _NESTED)
    except Exception:  # whatever the class of the value raises
        return None
    return number if math.isfinite(number) else None


def _converted(value: Any, deeper: int) -> float:
    """Raises any Exception, and gives NaN, for what is no number."""
    if isinstance(value, _NO_NUMBERS) or len(getattr(value, "shape", ())) > 0:
        return math.nan
    if getattr(getattr(value, "dtype", None), "kind", "") in _TIMES or getattr(value, "mask", False):
        return math.nan  # a masked value of NumPy is a missing one, and item() gives what is behind the mask
    item = getattr(value, "item", None)
    if deeper and callable(item) and not isinstance(value, int | float):
        return _converted(item(), deeper - 1)
    return float(value)


def _shown(value: Any) -> str:
    try:
        return safe_text(repr(value), one_line=True)[:_SHOWN]
    except Exception:  # a user-defined repr may raise, and that of a very long int does
        return f"a value of the type {type(value).__name__}"
