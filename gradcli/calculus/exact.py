"""The exact counterpart: the `exact` column of the table over mpmath (`Numbers`) and over sympy (`Symbols`).

A row says what it means once, as an expression over a namespace `m`; here are the two namespaces. `Numbers` computes
real results to any number of digits and never raises: what has no real value is nan, poles and divisions by zero are
infinite as in IEEE 754, and no number can take the memory or the time that its digits would need (9^9^9, 1e1000000000).
`Symbols` builds real symbolic expressions over exact numbers. Both libraries are imported when a namespace is made.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache, reduce
from threading import get_ident
from typing import Any, TypeAlias

from gradcli.graph import Graph
from gradcli.primitives import TABLE

Exact: TypeAlias = "str | float | Fraction | Any"  # what a number may be given as: decimal text, float, fraction, mpf
Given: TypeAlias = "Exact | Sequence[Exact]"

# How the labels of `graph.Known` and the constants of the language are computed, over either namespace.
KNOWN: dict[str, Callable[[Any], Any]] = {
    "pi": lambda m: m.pi,
    "tau": lambda m: 2 * m.pi,
    "e": lambda m: m.exp(m.num(1)),
    "inf": lambda m: m.inf,
    "-inf": lambda m: -m.inf,
    "nan": lambda m: m.nan,
    "log(2)": lambda m: m.log(m.num(2)),
    "log(10)": lambda m: m.log(m.num(10)),
    "180/pi": lambda m: 180 / m.pi,
    "pi/180": lambda m: m.pi / 180,
    "2/sqrt(pi)": lambda m: 2 / m.sqrt(m.pi),
    "sqrt(pi)/2": lambda m: m.sqrt(m.pi) / 2,
    "1/sqrt(2*pi)": lambda m: 1 / m.sqrt(2 * m.pi),
}

_GUARD_BITS = 48  # of working precision beyond the digits asked for
_HUGE = 1 << 62  # beyond 2^_HUGE a number counts as infinite, below 2^-_HUGE as 0
_TURNS = 1 << 15  # beyond 2^_TURNS an angle has no opinion: pi would be needed to as many bits
_STEPS = 12  # beyond -2^_STEPS some functions would go to positive numbers step by step
_ANGLES = frozenset(("sin", "cos", "tan", "sinpi", "cospi"))
_PLAIN = frozenset(("sqrt", "log", "asin", "acos", "atan", "asinh", "acosh"))
_ORDER = 1 << 12  # beyond this an order of a Bessel or polygamma function takes too long
_DIGITS = 4000  # of an exact number that sympy may write out
_SYMBOLIC = frozenset((
    "sqrt", "log", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "erf", "erfc", "erfinv", "besselj", "bessely", "besseli", "besselk"))  # fmt: skip


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


class Numbers:
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

    def erf(self, x: Any) -> Real:
        return self.sign(x) if self._size(x) > 40 else self._call(self.context.erf, x)

    def erfc(self, x: Any) -> Real:
        return 1 - self.sign(x) if self._size(x) > 40 else self._call(self.context.erfc, x)

    def erfcx(self, x: Any) -> Real:
        """exp(x^2)*erfc(x); for large x by its asymptotic series (DLMF 7.12.1), where the factors leave all bounds."""
        x, c = self.num(x), self.context
        if not x > 2 * c.prec:
            bits = max(2 * self._size(x), 0)
            return self.inf if bits > 60 else self._call(lambda v: c.exp(v * v) * c.erfc(v), x, bits=bits)
        term = total = self.num(1)
        for k in range(1, c.prec):
            term = term * (1 - 2 * k) / x / x / 2
            total = self.num(total + term)
            if not term.value or self._size(term) < -c.prec - 8:
                break
        return self.num(total / (x * self.sqrt(self.pi)))

    def erfinv(self, x: Any) -> Real:
        """By Halley's iteration, on erfc in the tails."""
        c, y = self.context, self.raw(x)
        if not abs(y) < 1 or not y:
            return self.inf * self.sign(x) if abs(y) == 1 else self.num(0) if not y else self.nan
        rest = 1 - abs(y)
        with c.extraprec(20 + max(0, -self._size(rest))):
            rest = 1 - abs(y)
            t = abs(y) * c.sqrt(c.pi) / 2
            if rest < 0.5:
                tail = c.log(rest * (2 - rest))
                half = 2 / (c.pi * 0.147) + tail / 2
                t = c.sqrt(c.sqrt(half * half - tail / 0.147) - half)
            for _ in range(60):
                miss = rest - c.erfc(t) if rest < 0.5 else c.erf(t) - abs(y)
                newton = miss * c.sqrt(c.pi) / 2 * c.exp(t * t)
                step = newton / (1 + t * newton)
                t -= step
                if self._size(step) < self._size(t) - c.prec // 2:
                    break
        return self.real(+t) * self.sign(x)

    # ---- gamma and Bessel functions ----

    def gamma(self, x: Any) -> Real:
        if not self.raw(x) or self._size(x) > 50:
            return self.inf if self.raw(x) >= 0 else self.nan
        return self._call(self.context.gamma, x)

    def lgamma(self, x: Any) -> Real:
        """log|gamma(x)|."""
        x = self.num(x)
        if x > 0:
            return self._call(self.context.loggamma, x)
        if self._size(x) > _TURNS or not x <= 0:
            return self.nan
        return self.log(abs(self.pi / self.sinpi(x))) - self.lgamma(1 - x)

    def beta(self, a: Any, b: Any) -> Real:
        if self.num(a) > 0 and self.num(b) > 0:
            with self.context.extraprec(max(0, self._size(self.logbeta(a, b))) + 8):
                value = self.exp(self.logbeta(a, b))
            return self.real(+value.value)
        return self.nan if max(self._size(a), self._size(b)) > _STEPS else self._call(self.context.beta, a, b)

    def logbeta(self, a: Any, b: Any) -> Real:
        """With the bits that cancel: lgamma of a large a is larger by far."""
        a, b = self.num(a), self.num(b)
        size = max(0, self._size(a), self._size(b))
        if not self.context.isfinite(a.value + b.value) or size > _TURNS:
            return self.nan
        with self.context.extraprec(2 * size + 8):
            value = self.lgamma(a) + self.lgamma(b) - self.lgamma(a + b)
        return self.real(+value.value)

    def polygamma(self, order: Any, x: Any) -> Real:
        n, x = self.raw(order), self.num(x)
        if not (0 <= n < _ORDER and self.context.isint(n)) or self._size(x) > (_TURNS if x > 0 else _STEPS):
            return self.nan
        if not x.value:
            return self.inf if int(n) % 2 else -self.inf
        return self._call(self.context.psi, int(n), x)

    def zeta(self, s: Any, x: Any) -> Real:
        """Hurwitz."""
        if not 1 < self.raw(s) < _ORDER or not self.raw(x):
            return self.inf if self.raw(s) >= 1 else self.nan
        far = self._size(x) > (_ORDER if self.raw(x) > 0 else _STEPS if self.context.isint(self.raw(s)) else -_ORDER)
        return self.nan if far or not self.context.isfinite(self.raw(x)) else self._call(self.context.zeta, s, x)

    def _bessel(self, name: str, order: Any, x: Any) -> Real:
        """No opinion where mpmath would need too long: large orders, orders near a whole one, very large or small x."""
        n = self.raw(order)
        near = not self.context.isint(n) and self._size(n - self.context.nint(n)) < -64 if abs(n) < _ORDER else True
        if near or not -_ORDER < self._size(x) < 64:
            return self.nan
        if n < 0 and self.context.isint(n):  # DLMF 10.4.1, 10.27.1-2; mpmath leaves an imaginary residue here
            value = self._bessel(name, -n, x)
            return -value if name in ("besselj", "bessely") and int(n) % 2 else value
        return self._call(getattr(self.context, name), order, x, bits=20 + max(0, self._size(x)))

    def besselj(self, n: Any, x: Any) -> Real:
        return self._bessel("besselj", n, x)

    def bessely(self, n: Any, x: Any) -> Real:
        return -self.inf if not self.raw(x) else self._bessel("bessely", n, x) if self.raw(x) > 0 else self.nan

    def besseli(self, n: Any, x: Any) -> Real:
        return self._bessel("besseli", n, x)

    def besselk(self, n: Any, x: Any) -> Real:
        return self.inf if not self.raw(x) else self._bessel("besselk", n, x) if self.raw(x) > 0 else self.nan

    # ---- over the rows ----

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


class Symbols:
    """Real symbolic expressions over exact numbers. A number too large to write out is nan: no opinion."""

    def __init__(self) -> None:
        import sympy

        self.sympy = sympy
        self.pi, self.inf, self.nan = sympy.pi, sympy.oo, sympy.nan
        self.max, self.min = sympy.Max, sympy.Min
        self.log1p = lambda x: sympy.log(1 + x)
        self.expm1 = lambda x: sympy.exp(x) - 1

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The functions that sympy knows under the same name."""
        if name in _SYMBOLIC:
            return getattr(self.sympy, name)  # type: ignore[no-any-return]
        raise AttributeError(name)

    def num(self, number: Any) -> Any:
        if isinstance(number, str):
            if number in KNOWN:
                return KNOWN[number](self)
            exponent = number.lower().partition("e")[2]
            if len(number) > 4000 or len(exponent) > 5 or abs(int(exponent or 0)) > _DIGITS:
                return self.nan
            return self.sympy.Rational(number.replace("_", ""))
        if isinstance(number, float):
            return self.sympy.Rational(number) if abs(number) < float("inf") else self.num(str(number))
        if isinstance(number, Fraction):
            return self.sympy.Rational(number.numerator, number.denominator)
        return self.sympy.sympify(number)

    def symbol(self, name: str) -> Any:
        return self.sympy.Symbol(name, real=True)

    # ---- conditions: Piecewise numbers, taken apart again where a condition is wanted ----

    def test(self, condition: Any) -> Any:
        if condition in (True, False):
            return self.num(int(bool(condition)))
        return self.sympy.Piecewise((1, condition), (0, True), evaluate=False)

    def _condition(self, value: Any) -> Any:
        value = self.num(value)
        if isinstance(value, self.sympy.Piecewise) and [e for e, _ in value.args] == [1, 0]:
            return value.args[0][1]
        return self.sympy.Ne(value, 0)

    def equal(self, a: Any, b: Any) -> Any:
        return self.test(self.sympy.Eq(a, b))

    def unequal(self, a: Any, b: Any) -> Any:
        return self.test(self.sympy.Ne(a, b))

    def both(self, a: Any, b: Any) -> Any:
        return self.test(self.sympy.And(self._condition(a), self._condition(b)))

    def either(self, a: Any, b: Any) -> Any:
        return self.test(self.sympy.Or(self._condition(a), self._condition(b)))

    def no(self, a: Any) -> Any:
        return self.test(self.sympy.Not(self._condition(a)))

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return self.sympy.Piecewise((self.num(a), self._condition(condition)), (self.num(b), True))

    # ---- parts of a number: steps have the derivative 0 ----

    def sign(self, x: Any) -> Any:
        return _step(self.sympy, "sign")(x)

    def floor(self, x: Any) -> Any:
        return _step(self.sympy, "floor")(x)

    def round(self, x: Any) -> Any:
        low = self.floor(x + self.num("0.5"))
        return low - self.where(self.equal(x + self.num("0.5"), low), low - 2 * self.floor(low / 2), 0)

    def mod(self, a: Any, b: Any) -> Any:
        return a - b * self.floor(a / b)

    def fmod(self, a: Any, b: Any) -> Any:
        return a - b * self.sign(a / b) * self.floor(abs(a / b))

    def cbrt(self, x: Any) -> Any:
        third = self.num(1) / 3
        return self.where(self.test(x < 0), -((-x) ** third), x**third)

    # ---- powers, exponentials, gamma: written out only where that is short ----

    def power(self, x: Any, p: Any) -> Any:
        x, p = self.num(x), self.num(p)
        numbers = x.is_Rational and p.is_Rational and x not in (0, 1, -1)
        return self.nan if numbers and abs(p) * max(abs(x.p), x.q).bit_length() > 4 * _DIGITS else x**p

    def exp(self, x: Any) -> Any:
        return self.sympy.exp(x)

    def _gamma(self, name: str, *arguments: Any) -> Any:
        large = any(self.num(a).is_Rational and abs(self.num(a)) > 100 for a in arguments)
        return getattr(self.sympy, name)(*arguments, evaluate=not large)

    def gamma(self, x: Any) -> Any:
        return self._gamma("gamma", x)

    def lgamma(self, x: Any) -> Any:
        """log|gamma(x)|; where x > 0 that is sympy's loggamma."""
        return self._gamma("loggamma", x)

    def beta(self, a: Any, b: Any) -> Any:
        return self.gamma(a) * self.gamma(b) / self.gamma(a + b)

    def logbeta(self, a: Any, b: Any) -> Any:
        return self.lgamma(a) + self.lgamma(b) - self.lgamma(a + b)

    def polygamma(self, n: Any, x: Any) -> Any:
        return self._gamma("polygamma", n, x)

    def zeta(self, s: Any, x: Any) -> Any:
        return self._gamma("zeta", s, x)

    def logaddexp(self, a: Any, b: Any) -> Any:
        return self.logsumexp(a, b)

    def logsumexp(self, *arguments: Any) -> Any:
        return self.sympy.log(self.sum([self.exp(a) for a in arguments]))

    def erfcx(self, x: Any) -> Any:
        return self.exp(x * x) * self.sympy.erfc(x)

    def sinpi(self, x: Any) -> Any:
        return self.sympy.sin(self.pi * x)

    def cospi(self, x: Any) -> Any:
        return self.sympy.cos(self.pi * x)

    def dsinc(self, order: Any, x: Any) -> Any:
        n, u = int(self.num(order)), self.sympy.Dummy("u", real=True)
        at_zero = 0 if n % 2 else (-1) ** (n // 2) * self.pi**n / (n + 1)
        return self.where(self.equal(x, 0), at_zero, self.sympy.diff(self.sinpi(u) / (self.pi * u), u, n).subs(u, x))

    # ---- over the rows ----

    def sum(self, items: Iterable[Any]) -> Any:
        return self.sympy.Add(*items)

    def prod(self, items: Iterable[Any]) -> Any:
        return self.sympy.Mul(*items)

    def var(self, items: Sequence[Any]) -> Any:
        mean = self.sum(items) / len(items)
        return self.sum([(x - mean) ** 2 for x in items]) / (len(items) - 1)

    def softmax(self, items: Sequence[Any]) -> list[Any]:
        total = self.sum([self.exp(x) for x in items])
        return [self.exp(x) / total for x in items]


@cache
def _step(sympy: Any, name: str) -> Any:
    """A step function of sympy whose derivative is 0, not a Dirac delta or unevaluated."""
    return type(name, (getattr(sympy, name),), {"_eval_derivative": lambda self, symbol: sympy.S.Zero})


def _is_column(value: Any) -> bool:
    return isinstance(value, list)


def _apply(m: Numbers, op: str, arguments: list[Any]) -> Any:
    """One row of the table at numbers or columns of them."""
    exact = TABLE[op].exact
    count = next((len(a) for a in arguments if _is_column(a)), 0)
    if op == "spread":
        x, like = arguments
        return [x] * len(like) if _is_column(like) and not _is_column(x) else x
    if TABLE[op].reduction:
        result = exact(m, *[a if _is_column(a) else [a] * max(count, 1) for a in arguments])
        return result if _is_column(result) else m.num(result)
    if not any(map(_is_column, arguments)):
        return m.num(exact(m, *arguments))
    columns = [a if _is_column(a) else [a] * count for a in arguments]
    return [m.num(exact(m, *row)) for row in zip(*columns, strict=True)]


def numbers(digits: int) -> Numbers:
    """The namespace for so many digits; one a thread, since a context of mpmath changes its precision as it works."""
    return _numbers(digits, get_ident())


@lru_cache(maxsize=32)
def _numbers(digits: int, thread: int) -> Numbers:
    return Numbers(digits)


def evaluate(graph: Graph, nodes: Iterable[int], leaves: Mapping[str, Given], digits: int) -> list[Any]:
    """The nodes of a specialised graph (before `simplify`) to `digits` digits: an mpf each, or a list of them.

    `leaves` has a number for every leaf that is needed, or a sequence of them for a column: decimal texts and fractions
    count exactly, floats as the binary numbers that they are. Nothing raises for what has no value: it is nan.
    """
    nodes = list(nodes)
    values = evaluate_all(graph, nodes, leaves, digits)
    return [[v.value for v in values[n]] if _is_column(values[n]) else values[n].value for n in nodes]


def evaluate_all(graph: Graph, nodes: Iterable[int], leaves: Mapping[str, Given], digits: int) -> list[Any]:
    """As `evaluate`, for every node the given ones need: by node a `Real`, a list of them, or None for the rest."""
    m = numbers(digits)
    needed = graph.reachable(nodes)
    values: list[Any] = [None] * len(graph)
    for node, op in enumerate(graph.ops):
        if not needed[node]:
            continue
        if op == "leaf":
            given = leaves[graph.labels[node]]
            many = isinstance(given, Sequence) and not isinstance(given, str)
            values[node] = [m.num(v) for v in given] if many else m.num(given)  # type: ignore[union-attr]
        elif op == "constant":
            values[node] = m.num(graph.numbers[node][1])
        elif op in ("name", "detach"):
            values[node] = values[graph.arguments(node)[0]]
        else:
            values[node] = _apply(m, op, [values[a] for a in graph.arguments(node)])
    return values
