"""The exact counterpart in numbers: the `exact` column of the table over mpmath, to any number of digits.

It never raises: what has no real value is nan, poles and divisions by zero are infinite as in IEEE 754, and no number
can take the memory or the time that its digits would need (9^9^9, 1e1000000000).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from gradcli.calculus.known import KNOWN
from gradcli.calculus.real import Real
from gradcli.calculus.special import Special

_GUARD_BITS = 48  # of working precision beyond the digits asked for
_HUGE = 1 << 62  # beyond 2^_HUGE a number counts as infinite, below 2^-_HUGE as 0
_TURNS = 1 << 15  # beyond 2^_TURNS an angle has no opinion: pi would be needed to as many bits
_STEPS = 12  # beyond -2^_STEPS some functions would go to positive numbers step by step
_ANGLES = frozenset(("sin", "cos", "tan", "sinpi", "cospi"))
_PLAIN = frozenset(("sqrt", "log", "asin", "acos", "atan", "asinh", "acosh"))


class Numbers(Special):
    """Real numbers to `digits` digits; every method takes and gives `Real` (or what `num` accepts)."""

    def __init__(self, digits: int) -> None:
        import mpmath

        self.context = mpmath.MPContext()  # of our own: the precision of mpmath.mp is not ours to change
        self.context.prec = int(digits * 3.33) + _GUARD_BITS
        self._faults = (ValueError, ArithmeticError, TypeError, NotImplementedError, AssertionError, RecursionError,
                        mpmath.libmp.NoConvergence)  # fmt: skip
        self.inf, self.nan = self.real(self.context.inf), self.real(self.context.nan)

    # ---- numbers in and out ----

    def real(self, value: Any) -> Real:
        """A result; nan where it is complex, infinite or 0 where its exponent is out of all bounds."""
        if isinstance(value, self.context.mpc):
            return self.nan
        sign, mantissa, exponent, bits = value._mpf_
        if mantissa and abs(exponent + bits) > _HUGE:
            value = self.context.zero if exponent < 0 else -self.context.inf if sign else self.context.inf
        return Real(self, value)

    def raw(self, number: Any) -> Any:
        return number.value if isinstance(number, Real) else self.num(number).value

    def num(self, number: Any) -> Real:
        """A number from a decimal text, a float, an integer, a fraction or a number of mpmath."""
        if isinstance(number, Real):
            return number
        if isinstance(number, str):
            return KNOWN[number](self) if number in KNOWN else self._decimal(number)
        if isinstance(number, Fraction):
            return self.quotient(self.context.mpf(number.numerator), self.context.mpf(number.denominator))
        return self.real(self.context.mpf(number))

    def _decimal(self, text: str) -> Real:
        body, _, exponent = text.strip().lower().replace("_", "").partition("e")
        negative, body = body.startswith("-"), body.lstrip("+-")
        if body in ("inf", "infinity", "nan"):
            return self.nan if body == "nan" else -self.inf if negative else self.inf
        whole, _, fraction = body.partition(".")
        digits = (whole + fraction).lstrip("0")
        kept = digits[: self.context.dps + 30]
        if not kept:
            return self.num(0)
        if len(exponent) > 19:
            return self.num(0) if exponent[0] == "-" else -self.inf if negative else self.inf
        power = int(exponent or 0) - len(fraction) + len(digits) - len(kept)
        with self.context.extraprec(80):
            value = self.context.mpf(int(kept)) * self.context.mpf(10) ** power
        return self.real(+(-value if negative else value))

    @property
    def pi(self) -> Real:
        return Real(self, +self.context.pi)

    def quotient(self, a: Any, b: Any) -> Real:
        if b:
            return self.real(a / b)
        return self.nan if not a or a != a else self.inf if a > 0 else -self.inf

    def _call(self, function: Callable[..., Any], *arguments: Any, bits: int = 0) -> Real:
        """A function of mpmath with `bits` more of precision; nan where it has no real value."""
        raw = [self.raw(a) for a in arguments]
        if any(a != a for a in raw):
            return self.nan
        try:
            with self.context.extraprec(bits):
                value = function(*raw)
            return self.real(+value)
        except self._faults:
            return self.nan

    def __getattr__(self, name: str) -> Callable[[Any], Real]:
        """The functions that mpmath computes as they are; an angle must not need too many digits of pi."""
        if name in _ANGLES:
            return lambda x: self.nan if self._size(x) > _TURNS else self._call(getattr(self.context, name), x)
        if name in _PLAIN:
            return lambda x: self._call(getattr(self.context, name), x)
        raise AttributeError(name)

    def _size(self, x: Any) -> int:
        """The binary exponent of a finite number, 0 of others."""
        _, mantissa, exponent, bits = self.raw(x)._mpf_
        return int(exponent + bits) if mantissa else 0

    def lost(self, terms: Iterable[Any], total: Any) -> float:
        """How many bits cancel in a sum; infinitely many where nothing is left of terms that are rounded."""
        terms = [t for t in terms if self.raw(t) and self.context.isfinite(self.raw(t))]
        if not terms or not self.context.isfinite(self.raw(total)):
            return 0
        if self.raw(total):
            return max(map(self._size, terms)) - self._size(total)
        return math.inf if any(self._rounded(self.raw(t)) for t in terms) else 0

    # ---- conditions: 1 or 0 ----

    def test(self, condition: bool) -> Real:
        return self.num(int(condition))

    def equal(self, a: Any, b: Any) -> Real:
        return self.test(self.raw(a) == self.raw(b))

    def unequal(self, a: Any, b: Any) -> Real:
        return self.test(self.raw(a) != self.raw(b))

    def both(self, a: Any, b: Any) -> Real:
        return self.test(self.raw(a) != 0 and self.raw(b) != 0)

    def either(self, a: Any, b: Any) -> Real:
        return self.test(self.raw(a) != 0 or self.raw(b) != 0)

    def no(self, a: Any) -> Real:
        return self.test(self.raw(a) == 0)

    def where(self, condition: Any, a: Any, b: Any) -> Real:
        return self.num(a if self.raw(condition) != 0 else b)

    # ---- parts of a number ----

    def sign(self, x: Any) -> Real:
        x = self.raw(x)
        return self.nan if x != x else self.num((x > 0) - (x < 0))

    def _whole(self, x: Any) -> Any:
        """x as a whole number where it is one but for the rounding of its last bits."""
        x = self.raw(x)
        if self._rounded(x) and self._size(x) < self.context.prec:
            near = self.context.nint(x)
            if abs(x - near) <= self.context.ldexp(1, self._size(x) - self.context.prec + 8):
                return near
        return x

    def _rounded(self, x: Any) -> bool:
        """Whether x has so many bits that it is the result of rounding, not exact."""
        return bool(x._mpf_[3] > self.context.prec - 8)

    def floor(self, x: Any) -> Real:
        x = self._whole(x)
        return self.real(self.context.floor(x) if self.context.isfinite(x) else x)

    def round(self, x: Any) -> Real:
        x = self._whole(x)
        return self.real(self.context.nint(x) if self.context.isfinite(x) else x)

    def mod(self, a: Any, b: Any) -> Real:
        """a - b*floor(a/b) without the rounding of a/b; as in IEEE, a by an infinite b of its sign is a."""
        a, b = self.raw(a), self.raw(b)
        if not b or not self.context.isfinite(a) or b != b:
            return self.nan
        if abs(a) < abs(b):
            return self.real(a if not a or (a > 0) == (b > 0) else a + b)
        if self._size(a) - self._size(b) > _TURNS:
            return self.nan
        rest = a % b
        noise = abs(self.context.ldexp(a, 8 - self.context.prec)) if self._rounded(a) or self._rounded(b) else 0
        return self.num(0) if min(abs(rest), abs(b - rest)) <= noise and noise else self.real(rest)

    def fmod(self, a: Any, b: Any) -> Real:
        a = self.num(a)
        return self.sign(a) * self.mod(abs(a), abs(self.num(b)))

    def min(self, *arguments: Any) -> Real:
        return -self.max(*[-self.num(a) for a in arguments])

    def max(self, *arguments: Any) -> Real:
        raw = [self.raw(a) for a in arguments]
        return self.nan if not raw or any(a != a for a in raw) else Real(self, max(raw))

    def cbrt(self, x: Any) -> Real:
        return self.sign(x) * self._call(self.context.cbrt, abs(self.num(x)))

    # ---- powers, exponentials, logarithms ----

    def power(self, base: Any, exponent: Any) -> Real:
        """IEEE pow: x^0 and 1^p are 1 for any x and p; a negative base needs a whole exponent."""
        c, x, p = self.context, self.raw(base), self.raw(exponent)
        if not p or x == 1:
            return self.num(1)
        if x != x or p != p:
            return self.nan
        whole, odd = p._mpf_[2] >= 0 or c.isinf(p), p._mpf_[2] == 0 and not c.isinf(p)
        if x < 0 and not whole:
            return self.nan
        sign, x = -1 if x < 0 and odd else 1, abs(x)
        if not x or c.isinf(x):
            return (self.inf if (p < 0) != bool(x) else self.num(0)) * sign
        if x == 1:
            return self.num(sign)
        logarithm = p * c.log(x)
        if c.isinf(logarithm) or self._size(logarithm) > 62:
            return (self.inf if logarithm > 0 else self.num(0)) * sign
        if p._mpf_[2] >= -1 and self._size(p) < 20:
            return self._call(operator.pow, x, p) * sign
        size = max(self._size(logarithm), 0)
        return self._call(lambda x, p: c.exp(p * c.log(x)), x, p, bits=size + 8) * sign

    def exp(self, x: Any) -> Real:
        if self._size(x) > 62:
            return self.inf if self.raw(x) > 0 else self.num(0)
        return self._call(self.context.exp, x)

    def expm1(self, x: Any) -> Real:
        return self.exp(x) - 1 if self._size(x) > 61 else self._call(self.context.expm1, x)

    def log1p(self, x: Any) -> Real:
        return -self.inf if self.raw(x) == -1 else self._call(self.context.log1p, x)

    def logaddexp(self, a: Any, b: Any) -> Real:
        return self.logsumexp(a, b)

    def logsumexp(self, *arguments: Any) -> Real:
        top = self.max(*arguments)
        if not self.context.isfinite(top.value):
            return top
        others = list(arguments)
        others.remove(next(a for a in arguments if self.raw(a) == top.value))
        return top + self.log1p(self.sum([self.exp(self.num(a) - top) for a in others]))

    # ---- circular functions ----

    def atan2(self, y: Any, x: Any) -> Real:
        return self._call(self.context.atan2, y, x)

    def dsinc(self, order: Any, x: Any) -> Real:
        """The n-th derivative of sin(pi*x)/(pi*x): by series near 0, else by t*s_n = sin(t + n*pi/2) - n*s_(n-1)."""
        c, x = self.context, self.raw(x)
        if not 0 <= self.raw(order) < _STEPS:
            return self.nan
        n = int(self.raw(order))
        if not c.isfinite(x) or self._size(x) > _TURNS:
            return self.num(0) if c.isinf(x) else self.nan
        with c.extraprec(40 + 20 * n):
            if abs(x) < 1:
                value = c.pi**n * self._sinc_series(n, c.pi * x)
            else:
                sine, cosine = c.sinpi(x), c.cospi(x)
                phases = (sine, cosine, -sine, -cosine)
                value = sine / (c.pi * x)
                for k in range(1, n + 1):
                    value = (phases[k % 4] * c.pi ** (k - 1) - k * value) / x
        return self.real(+value)

    def _sinc_series(self, n: int, t: Any) -> Any:
        """The integral of u^n cos(t*u + n*pi/2) over 0..1, term by term."""
        c = self.context
        odd = n % 2
        term = (-1) ** ((n + odd) // 2) * (t if odd else c.one)
        total, k, small = term / (n + odd + 1), odd, c.ldexp(1, -c.prec - 8)
        while abs(term) > small * abs(total):
            term *= -t * t / ((k + 1) * (k + 2))
            k += 2
            total += term / (n + k + 1)
        return total

    # ---- hyperbolic functions ----

    def sinh(self, x: Any) -> Real:
        return self.exp(abs(self.num(x))) * self.sign(x) if self._size(x) > 61 else self._call(self.context.sinh, x)

    def cosh(self, x: Any) -> Real:
        return self.exp(abs(self.num(x))) if self._size(x) > 61 else self._call(self.context.cosh, x)

    def tanh(self, x: Any) -> Real:
        return self.sign(x) if self._size(x) > 61 else self._call(self.context.tanh, x)

    def atanh(self, x: Any) -> Real:
        return self.inf * self.sign(x) if abs(self.raw(x)) == 1 else self._call(self.context.atanh, x)

    # ---- error functions ----

    def sum(self, items: Iterable[Any]) -> Real:
        return self.num(reduce(operator.add, items, self.num(0)))

    def prod(self, items: Iterable[Any]) -> Real:
        return self.num(reduce(operator.mul, items, self.num(1)))

    def var(self, items: Sequence[Any]) -> Real:
        mean = self.sum(items) / len(items)
        return self.sum([(self.num(x) - mean) * (self.num(x) - mean) for x in items]) / (len(items) - 1)

    def softmax(self, items: Sequence[Any]) -> list[Real]:
        total = self.logsumexp(*items)
        return [self.exp(self.num(x) - total) for x in items]
