"""Exact numbers of formulas: whole numbers are plain integers, others fractions, and none grows without bound."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

Rational: TypeAlias = "int | Fraction"

_BITS = 200  # of a number; beyond, it is rounded to a float


def whole(value: Rational) -> Rational:
    return value.numerator if value.denominator == 1 else value


def size(value: Rational) -> Rational:
    """The absolute value, with its type."""
    return -value if value < 0 else value


def bounded(value: Rational) -> Rational:
    """The number itself while it is short, else the nearest float; whole numbers are plain integers.

    Raises OverflowError where there is no float near it.
    """
    if value.numerator.bit_length() + value.denominator.bit_length() > _BITS:
        near = float(value)  # OverflowError where there is none
        if near == 0 or abs(near) == float("inf"):
            raise OverflowError("a coefficient out of range")
        value = Fraction(repr(near))
    return whole(value)


def power(base: Rational, exponent: Rational) -> Rational | None:
    """A number to a power, where that is a short number."""
    if base == 1:
        return 1
    if not isinstance(exponent, int) or (base == 0 and exponent <= 0):
        return None
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > _BITS:
        return None
    return whole(Fraction(base) ** int(exponent))


def decimal(text: str) -> Rational | None:
    """The exact number of a decimal text, where it is a short one."""
    body, _, exponent = text.lower().replace("_", "").partition("e")
    if len(body) > 40 or len(exponent) > 3 or not body.lstrip("+-").replace(".", "", 1).isdigit():
        return None
    if exponent and abs(int(exponent)) > 40:
        return None
    return whole(Fraction(text.replace("_", "")))


def spelled(value: Rational) -> str | None:
    """A number as a decimal, as short as it reads back; None where it has none: 1/3."""
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1:
        return None
    text = repr(float(value)).removesuffix(".0").replace("e+", "e")
    if value.denominator == 1 and size(value) < 10**16:
        short = f"{float(value):e}".replace("e+0", "e").replace("e+", "e")
        mantissa, _, exponent = short.partition("e")
        short = f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
        digits = str(value.numerator)
        return short if len(digits) > 2 * len(short) and Fraction(short) == value else digits
    if Fraction(text) != value and value.denominator != 1:
        longer = f"{float(value):.17g}"
        text = longer if Fraction(longer) == value else text
    return text
