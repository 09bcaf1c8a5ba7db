"""A number of mpmath that follows IEEE 754."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcli.calculus.numbers import Numbers


class Real:
    """A number of mpmath that follows IEEE 754: a division by zero is infinite or nan, not an exception."""

    __slots__ = ("m", "value")

    def __init__(self, m: Numbers, value: Any) -> None:
        self.m = m
        self.value = value

    def __add__(self, other: Any) -> Real:
        return self.m.real(self.value + self.m.raw(other))

    def __sub__(self, other: Any) -> Real:
        return self.m.real(self.value - self.m.raw(other))

    def __rsub__(self, other: Any) -> Real:
        return self.m.real(self.m.raw(other) - self.value)

    def __mul__(self, other: Any) -> Real:
        return self.m.real(self.value * self.m.raw(other))

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Any) -> Real:
        return self.m.quotient(self.value, self.m.raw(other))

    def __rtruediv__(self, other: Any) -> Real:
        return self.m.quotient(self.m.raw(other), self.value)

    def __neg__(self) -> Real:
        return Real(self.m, -self.value)

    def __abs__(self) -> Real:
        return Real(self.m, abs(self.value))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < self.m.raw(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= self.m.raw(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > self.m.raw(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= self.m.raw(other))

    def __repr__(self) -> str:
        return str(self.value)
