"""Texts to numbers: the same as Python's, except where a spelling is refused on purpose."""

from __future__ import annotations

import math
import random
import struct

import pytest

from gradcli.formats.cells import Reading, parse_number, read_cells

pl = pytest.importorskip("polars")


def numbers(*texts: str | None, reading: Reading = Reading()) -> list[float | None]:  # noqa: B008  frozen
    found = read_cells(pl.Series("x", list(texts), dtype=pl.String), reading)
    odd = {index for index, *_ in found.bad}
    missing = found.missing if found.missing is not None else [False] * len(texts)
    return [None if m or i in odd else v for i, (v, m) in enumerate(zip(found.values.tolist(), missing, strict=True))]


HARD = [
    "-15.361", "0.1", "9007199254740993", "9007199254740992.99999999999999999999", "1e-320", "4.9e-324", "1e400",
    "2.2250738585072011e-308", "2.4703282292062327208e-324", "1.7976931348623159e308", "00012", "+.5", "5.", "-0",
    "0.500000000000000166533453693773481063544750213623046875", "1E+5", "123456789012345678901234567890",
]  # fmt: skip


def test_numbers_round_correctly() -> None:
    assert [struct.pack("d", v) for v in numbers(*HARD)] == [struct.pack("d", float(t)) for t in HARD]
    rng = random.Random(3)
    texts = [f"{rng.uniform(-1, 1) * 10 ** rng.randint(-300, 300):.{rng.randint(0, 25)}e}" for _ in range(20_000)]
    assert numbers(*texts) == [float(t) for t in texts]


def test_polars_and_the_pattern_agree() -> None:
    rng = random.Random(5)
    texts = ["".join(rng.choices("0189.+-eEinfatyNI_ d", k=rng.randint(1, 6))) for _ in range(20_000)]
    for text, value in zip(texts, numbers(*texts), strict=True):
        want = parse_number(text.strip())
        assert value == want or (value != value and want is not None and math.isnan(want)) or not text.strip()


@pytest.mark.parametrize("text", ["nan", "NaN", "-inf", "INFINITY", "+Inf"])
def test_not_finite_is_a_number(text: str) -> None:
    assert str(numbers(text)[0]) == str(float(text))


@pytest.mark.parametrize("text", ["", "  ", "\t", None, "NA", "na", "null", "NULL", "N/A", "#N/A", " NA "])
def test_missing(text: str | None) -> None:
    found = read_cells(pl.Series("x", ["1", text], dtype=pl.String), Reading())
    assert found.missing is not None
    assert found.missing.tolist() == [False, True]
    assert not found.bad


@pytest.mark.parametrize(
    ("text", "word"),
    [("1_000", "underscore"), ("1,5", "comma"), ("\u0661\u0662", "0 to 9"), ("\u22125", "U+2212"), ("1d5", "exponent"),
     ("abc", "not a number"), ("0x10", "not a number"), ("1e", "not a number"), ("1 000", "not a number"),
     ("$5", "not a number"), ("5%", "not a number"), ("true", "not a number"), ("1.2.3", "not a number")],
)  # fmt: skip
def test_malformed(text: str, word: str) -> None:
    ((index, raw, reason, remedy),) = read_cells(pl.Series("x", ["1", text]), Reading()).bad
    assert (index, raw) == (1, text)
    assert word in reason
    assert remedy


def test_decimal_comma() -> None:
    reading = Reading(decimal_comma=True)
    assert numbers("9,99", "1.234,56", "1.234.567", "-2", "1e3", reading=reading) == [
        9.99,
        1234.56,
        1234567.0,
        -2.0,
        1000.0,
    ]
    odd = ("1.5", "1,234.5", "0.123", "-0.123", "012.345", "000.000,5")
    assert numbers(*odd, reading=reading) == [None] * len(odd)


def test_a_number_may_mean_missing() -> None:
    assert numbers("1", "-999", reading=Reading(extra=("-999",))) == [1.0, None]
