"""The function itself as the third witness: its slopes to the left and to the right of a point.

Each comes from differences over three steps that shrink by ten powers of ten, so that it is seen where they lead: to a
number, to 0 (x^3 at 0: the slope over a step shrinks with the step), or out of all bounds (sqrt at 0, a jump).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradcli.calculus.exact import evaluate_all, numbers
from gradcli.checking.exactly import is_nan
from gradcli.checking.rounding import noise
from gradcli.checking.shapes import Shape, raw

_DIGITS = 200  # of the function
_STEPS = (30, 40, 50)  # decimal exponents of the steps, relative to the point
_RATIO = 10  # decimal exponent from one step to the next
_PURE = 1e-15  # by how much of itself a power of the step may be off
_INF, _NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Slope:
    """A one-sided slope, and how far it may be off; nan where the function has no value on that side."""

    value: Any
    error: Any = 0
    jump: bool = False  # the function jumps: no slope is right

    @property
    def known(self) -> bool:
        return not is_nan(self.value)

    def fits(self, number: Any, scale: Any = 0) -> bool:
        """Whether a number is this slope, to twelve digits of the larger or of a scale, or to what is known of it."""
        if number == self.value:
            return True
        if is_nan(number) or abs(number) == _INF or abs(self.value) == _INF:
            return False
        size = max(abs(number), abs(self.value), scale)
        return bool(abs(number - self.value) <= self.error + size / 10**12)


def meet(left: Slope, right: Slope, scale: Any = 0) -> bool:
    """Whether both sides have the same slope: where not, there is a kink."""
    if abs(left.value) == _INF or abs(right.value) == _INF:
        return bool(left.value == right.value)
    return left.fits(right.value, scale) or right.fits(left.value, scale)


def one_sided(shape: Shape, name: str, row: int, leaves: Mapping[str, Any]) -> tuple[Slope, Slope]:
    """The slopes of the function by a leaf (in a row of it) to the left and to the right of a point."""
    m = numbers(_DIGITS)
    given = leaves[name]
    many = isinstance(given, list)
    at = row if many and len(given) > 1 else 0
    centre = m.num(given[at] if many else given).value
    scale = abs(centre) or m.context.mpf(1)

    def there(moved: Any) -> list[Any]:
        changed = [*given[:at], moved, *given[at + 1 :]] if many else moved
        return evaluate_all(shape.graph, [shape.output], {**leaves, name: changed}, _DIGITS)

    def value(found: list[Any]) -> Any:
        return _at(raw(found[shape.output]), row)

    found = there(centre)
    middle, error = value(found), 2 * _at(noise(shape.graph, found, shape.output, _DIGITS), row)
    sides = []
    for sign in (-1, 1):
        steps = [sign * scale * m.context.mpf(10) ** -e for e in _STEPS]
        slopes = [(value(there(centre + step)) - middle) / step for step in steps]
        sides.append(_limit(slopes, error / abs(steps[-1])))
    return sides[0], sides[1]


def _at(rows: Sequence[Any], row: int) -> Any:
    return rows[row if len(rows) > 1 else 0]


def _limit(slopes: Sequence[Any], error: Any) -> Slope:
    """Where the slopes over three steps lead; `error` is that of the last."""
    first, second, last = slopes
    if any(is_nan(s) for s in slopes):
        return Slope(_NAN)
    if abs(last) <= error:
        return Slope(last * 0, error)
    if abs(last) == _INF:
        return Slope(last, jump=True)
    if 10 * abs(second) < abs(first) and 10 * abs(last) < abs(second):
        # a power of the step hides no slope that would bend it
        power = abs(last * first - second * second) <= second * second * _PURE
        return Slope(last * 0, error + abs(last) * (10 * _PURE if power else 1))
    before, after = second - first, last - second
    if abs(last) > 10 * abs(second) > 100 * abs(first) or (abs(after) > 0.9 * abs(before) and abs(after) > 4 * error):
        return Slope(last * _INF, jump=bool(abs(last) > abs(second) * 10 ** (_RATIO - 1)))
    rest = after * after / (before - after) if before != after else after
    return Slope(last + rest, abs(rest) + 100 * error)
