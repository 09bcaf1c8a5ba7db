"""The exact counterpart in symbols: the `exact` column of the table over sympy, real symbols and exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from gradcli.calculus.known import KNOWN

_DIGITS = 4000  # of an exact number that sympy may write out
_SYMBOLIC = frozenset((
    "sqrt", "log", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "erf", "erfc", "erfinv", "besselj", "bessely", "besseli", "besselk"))  # fmt: skip


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
        return self.sympy.Integer(number) if isinstance(number, int) else number

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

    def digamma_drop(self, n: Any, x: Any, a: Any) -> Any:
        return self.polygamma(n, x) - self.polygamma(n, x + a)

    def zeta(self, s: Any, x: Any) -> Any:
        return self._gamma("zeta", s, x)

    def logaddexp(self, a: Any, b: Any) -> Any:
        return self.logsumexp(a, b)

    def logsumexp(self, *arguments: Any) -> Any:
        return self.sympy.log(self.sum([self.exp(a) for a in arguments]))

    def erfcx(self, x: Any) -> Any:
        return self.exp(x * x) * self.sympy.erfc(x)

    def ierfcx(self, order: Any, x: Any) -> Any:
        before, value = 2 / self.sympy.sqrt(self.pi), self.erfcx(x)
        for k in range(1, int(self.num(order)) + 1):
            before, value = value, (before - 2 * x * value) / (2 * k)
        return value

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
