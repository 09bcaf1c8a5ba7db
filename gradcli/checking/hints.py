"""How a wrong formula differs from the right one, where a few numbers give it away."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from gradcli.checking.points import Branches, Point
from gradcli.language.lower import ClaimLine

if TYPE_CHECKING:
    from gradcli.api import Model

_SAME = 1e-25


def hint(model: Model, claim: ClaimLine, seen: Sequence[tuple[Point, Any, Any]], branches: Branches) -> str | None:
    """One sentence from both sides at a few points, or None."""
    pairs = [(p, a, b) for p, a, b in seen if a == a and b == b]
    if len(pairs) < len(seen) or not pairs:
        return "one side is not defined here: restrict the claim with `if`, or give a `domain`"
    differing = [(p, a, b) for p, a, b in pairs if not _close(a, b)]
    if len(pairs) >= 3 and len(differing) < len(pairs):
        return f"the sides differ at {len(differing)} of {len(pairs)} points only: on one branch, or for one sign"
    if len(pairs) < 2:
        return None
    return _ratio(pairs) or _difference(pairs)


def _close(a: Any, b: Any) -> bool:
    return bool(a == b or abs(a - b) <= _SAME * max(abs(a), abs(b)))


def _constant(numbers: Sequence[Any]) -> Any:
    """The common value of numbers that are all the same, or None."""
    return numbers[0] if all(_close(numbers[0], n) for n in numbers[1:]) else None


def _ratio(pairs: Sequence[tuple[Point, Any, Any]]) -> str | None:
    if any(b == 0 or a == 0 for _, a, b in pairs):
        return None
    ratios = [a / b for _, a, b in pairs]
    constant = _constant(ratios)
    if constant is not None:
        if _close(constant, type(constant)(-1)):
            return "the sign is wrong"
        return f"the left side is {_spelled(constant)} times the right side: a constant factor is missing"
    for label, numbers in _leaves(pairs):
        for power, text in ((1, label), (-1, f"1/{label}"), (2, f"{label}^2")):
            factor = _constant([r / type(r)(n) ** power for r, n in zip(ratios, numbers, strict=True)])
            if factor is not None:
                scale = "" if _close(factor, type(factor)(1)) else f"{_spelled(factor)}*"
                return f"the left side is {scale}{text} times the right side: a factor is missing"
    return None


def _difference(pairs: Sequence[tuple[Point, Any, Any]]) -> str | None:
    gaps = [a - b for _, a, b in pairs]
    constant = _constant(gaps)
    if constant is not None:
        return f"the left side is the right side plus {_spelled(constant)}: a term is missing"
    for label, numbers in _leaves(pairs):
        factor = _constant([g / type(g)(n) for g, n in zip(gaps, numbers, strict=True)])
        if factor is not None:
            scale = "" if _close(factor, type(factor)(1)) else f"{_spelled(factor)}*"
            return f"the left side is the right side plus {scale}{label}: a term is missing"
    return None


def _leaves(pairs: Sequence[tuple[Point, Any, Any]]) -> list[tuple[str, list[float]]]:
    """Scalar leaves with a value other than 0 at every point, and different ones."""
    found = []
    for label in pairs[0][0]:
        numbers = [p.get(label) for p, _, _ in pairs]
        plain = [n for n in numbers if isinstance(n, float) and n]
        if len(plain) == len(pairs) and len(set(plain)) > 1:
            found.append((label, plain))
    return found


def _spelled(number: Any) -> str:
    value = float(number)
    fraction = Fraction(value).limit_denominator(1000)
    if abs(float(fraction) - value) <= 1e-15 * abs(value):
        return str(fraction)
    return f"{value:.12g}"
