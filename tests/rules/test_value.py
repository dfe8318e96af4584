"""What a rule's returned value means: the same in a run, in a test, in a batch and in a trainer."""

from __future__ import annotations

import asyncio
import decimal
import fractions
import math
from datetime import timedelta
from typing import Any

import numpy
import pytest
from pydantic import BaseModel

from conch import rule
from conch.errors import ContractError
from conch.rules import verdict
from conch.testing import make_action_taken, score
from conch.trl import as_reward_func
from conch.verifiers import as_rubric_func
from conch_schemas import ActionTaken


class _Index:
    """A number to `operator.index` alone."""

    def __index__(self) -> int:
        return 1


class _Odd:
    """Converts to a float, and raises."""

    def __float__(self) -> float:
        raise RuntimeError("not now")


class _Flat(_Odd):
    """An array without dimensions of a library that is not installed, whose conversion copies from a device."""

    shape: tuple[int, ...] = ()

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        """The value as Python's own."""
        return self.value


class _Mute:
    """Has no words."""

    def __repr__(self) -> str:
        raise ValueError("no words")


NUMBERS = {
    "bool": (True, 1.0),
    "int": (1, 1.0),
    "decimal": (decimal.Decimal("0.25"), 0.25),
    "fraction": (fractions.Fraction(1, 4), 0.25),
    "index": (_Index(), 1.0),
    "without a reason": ((0.25, None), 0.25),
    "numpy.bool": (numpy.float64(2) > 1, 1.0),
    "numpy.false": (numpy.float64(0) > 1, 0.0),
    "numpy.int8": (numpy.int8(1), 1.0),
    "numpy.uint64": (numpy.uint64(1), 1.0),
    "numpy.float16": (numpy.float16(0.25), 0.25),
    "numpy.float32": (numpy.float32(0.25), 0.25),
    "numpy.float64": (numpy.float64(0.25), 0.25),
    "numpy.longdouble": (numpy.longdouble(0.25), 0.25),
    "numpy.array": (numpy.array(0.25), 0.25),
    "numpy.array of a truth": (numpy.array(True), 1.0),
    "numpy.array of an object": (numpy.array(decimal.Decimal("0.25"), dtype=object), 0.25),
    "another library's": (_Flat(0.25), 0.25),
    "another library's truth": (_Flat(True), 1.0),
}
"""By name: what a rule returns, and the number that it is."""

NONE_OF_THEM: dict[str, Any] = {
    "nan": math.nan,
    "inf": -math.inf,
    "a long int": 10**400,
    "a longer int": 10**5000,
    "text": "0.5",
    "bytes": b"1",
    "bytearray": bytearray(b"1"),
    "complex": 1 + 0j,
    "list": [0.5],
    "tuple": (0.5,),
    "pair": (0.5, 3),
    "dict": {"score": 1.0},
    "object": object(),
    "raises": _Odd(),
    "mute": _Mute(),
    "duration": timedelta(seconds=1),
    "decimal nan": decimal.Decimal("nan"),
    "decimal signalling nan": decimal.Decimal("sNaN"),
    "long decimal": decimal.Decimal("1e400"),
    "long fraction": fractions.Fraction(10**400),
    "numpy.nan": numpy.float32("nan"),
    "numpy.inf": numpy.float16("inf"),
    "numpy.str": numpy.str_("1"),
    "numpy.bytes": numpy.bytes_(b"1"),
    "numpy.complex": numpy.complex128(1),
    "numpy.timedelta": numpy.timedelta64(1, "ns"),
    "numpy.datetime": numpy.datetime64(1, "ns"),
    "numpy.masked": numpy.ma.masked,
    "array of one": numpy.array([0.5]),
    "array of none": numpy.array([]),
    "array of two": numpy.array([0.5, 1.0]),
    "array of one truth": numpy.array([[True]]),
    "array of a text": numpy.array("0.5"),
    "array of a text as an object": numpy.array("0.5", dtype=object),
    "array of a complex": numpy.array(1j),
    "array of a duration": numpy.array(1, dtype="m8[ns]"),
    "another library's text": _Flat("0.5"),
    "another library's complex": _Flat(1 + 0j),
}
"""By name: what is no finite number."""


def _rubric(rule: Any) -> float:
    """What the rule gives a rubric."""

    async def asked() -> float:
        return await as_rubric_func(rule)("p", "REFLECT: a reply")

    return asyncio.run(asked())


def _meanings(returned: Any) -> list[tuple[float | None, str]]:
    """(value, words of the error) of one rule in a test, a run, a batch, a trainer and a rubric."""

    @rule(range=(0.0, 1.0))
    def returns(action: ActionTaken) -> Any:
        return returned

    tested = score(returns, make_action_taken(1))
    judged = asyncio.run(verdict(returns, make_action_taken(1)))
    found = [(tested.value, tested.explanation), (judged.value, judged.explanation)]
    trained = as_reward_func(returns)(["p"], ["REFLECT: a reply"])
    assert trained == [judged.value]
    try:
        found.append((_rubric(returns), judged.explanation))
    except ContractError as error:
        found.append((None, str(error).removeprefix("returns: ")))
    return found


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_any_library_is_that_number_everywhere(name: str) -> None:
    """Truth values, exact numbers, scalars and arrays without dimensions, in a run, a batch, a trainer and a rubric."""
    returned, value = NUMBERS[name]

    assert [found for found, _ in _meanings(returned)] == [value] * 3


@pytest.mark.parametrize("name", NONE_OF_THEM)
def test_what_is_no_number_is_an_error_in_the_same_words_everywhere(name: str) -> None:
    """A text of digits, an array of one element, a masked value and a duration are no numbers."""
    meanings = _meanings(NONE_OF_THEM[name])

    assert [value for value, _ in meanings] == [None] * 3
    assert len({words for _, words in meanings}) == 1
    assert "not a finite number or None" in meanings[0][1]


@pytest.mark.parametrize("returned", [1.5, numpy.float32(1.5), numpy.array(1.5), decimal.Decimal("1.5")])
def test_a_value_outside_the_range_is_an_error_in_the_same_words_everywhere(returned: Any) -> None:
    """Whatever its type, the number is shown."""
    assert _meanings(returned) == [(None, "returned 1.5, outside its range 0..1")] * 3


@pytest.mark.parametrize("name", ["numpy.bool", "numpy.array", "decimal"])
def test_a_number_of_any_library_may_come_with_its_reason(name: str) -> None:
    """(value, why) is read as the value is by itself."""
    returned, value = NUMBERS[name]

    assert _meanings((returned, "for a reason"))[:2] == [(value, "for a reason")] * 2


class _Count(BaseModel):
    acts: int = 0


@pytest.mark.parametrize("returned", [0.5, (0.5, 0.5), (_Count(), 0.5, "why"), None, _Count()])
def test_a_stateful_rule_that_returns_no_state_is_an_error_in_the_same_words_everywhere(returned: Any) -> None:
    """A run and a trainer read (state, value) alike."""

    @rule(state=_Count)
    def counts(state: _Count, action: ActionTaken) -> Any:
        return returned

    with pytest.raises(ContractError) as raised:
        _rubric(counts)

    assert str(raised.value).removeprefix("counts: ") == score(counts, make_action_taken(1)).explanation


@pytest.mark.parametrize("values", [(0.25,), (True,), (1,)])
def test_a_tensor_without_dimensions_is_its_number(values: tuple[Any, ...]) -> None:
    """Also one that takes part in a gradient; one with an element in a dimension, or of complex numbers, is none."""
    torch = pytest.importorskip("torch")
    flat = torch.tensor(values[0])

    assert [value for value, _ in _meanings(flat)] == [float(values[0])] * 3
    assert [value for value, _ in _meanings(torch.tensor([values[0]]))] == [None] * 3


def test_a_tensor_of_half_precision_or_with_a_gradient_is_its_number() -> None:
    """A complex tensor is none."""
    torch = pytest.importorskip("torch")

    assert [value for value, _ in _meanings(torch.tensor(0.25, dtype=torch.bfloat16))] == [0.25] * 3
    assert [value for value, _ in _meanings(torch.tensor(0.25, requires_grad=True))] == [0.25] * 3
    assert [value for value, _ in _meanings(torch.tensor(1 + 0j))] == [None] * 3
