"""Special functions over mpmath: error, gamma and Bessel functions, for `numbers.Numbers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradcli.calculus.real import Real

_TURNS = 1 << 15  # beyond 2^_TURNS an angle has no opinion: pi would be needed to as many bits
_STEPS = 12  # beyond -2^_STEPS some functions would go to positive numbers step by step
_BITS = 1 << 12  # more of them take a gamma function seconds
_ORDER = 1 << 12  # beyond this an order of a Bessel or polygamma function takes too long


class Special:
    """A part of `numbers.Numbers`, which gives it arithmetic and elementary functions."""

    if TYPE_CHECKING:  # what it is given
        context: Any
        inf: Real
        nan: Real

        @property
        def pi(self) -> Real: ...
        def raw(self, number: Any) -> Any: ...
        def num(self, number: Any) -> Real: ...
        def real(self, value: Any) -> Real: ...
        def sign(self, x: Any) -> Real: ...
        def exp(self, x: Any) -> Real: ...
        def sinpi(self, x: Any) -> Real: ...
        def sqrt(self, x: Any) -> Real: ...
        def log(self, x: Any) -> Real: ...
        def _size(self, x: Any) -> int: ...
        def _call(self, function: Callable[..., Any], *arguments: Any, bits: int = 0) -> Real: ...

    def erf(self, x: Any) -> Real:
        return self.sign(x) if self._size(x) > 40 else self._call(self.context.erf, x)

    def erfc(self, x: Any) -> Real:
        return 1 - self.sign(x) if self._size(x) > 40 else self._call(self.context.erfc, x)

    def erfcx(self, x: Any) -> Real:
        """exp(x^2)*erfc(x)."""
        return self.ierfcx(0, x)

    def ierfcx(self, order: Any, x: Any) -> Real:
        """exp(x^2) times the n-th repeated integral of erfc: by its recurrence (DLMF 7.18.7); for large x by its
        asymptotic series (DLMF 7.18.14), where the factors leave all bounds."""
        x, c = self.num(x), self.context
        if not 0 <= self.raw(order) < _STEPS:
            return self.nan
        n, bits = int(self.raw(order)), max(2 * self._size(x), 0)
        if not x > 2 * c.prec:
            return self.inf if bits > 60 else self._call(lambda v: self._repeated(n, v), x, bits=(n + 1) * (bits + 2))
        term = total = self.num(1)
        for k in range(1, c.prec):
            term = term * (-(2 * k + n) * (2 * k + n - 1)) / k / x / x / 4
            total = self.num(total + term)
            if not term.value or self._size(term) < -c.prec - 8:
                break
        for _ in range(n):
            total = total / x / 2
        return self.num(total / (x * self.sqrt(self.pi)))

    def _repeated(self, n: int, v: Any) -> Any:
        c = self.context
        before, value = 2 / c.sqrt(c.pi), c.exp(v * v) * c.erfc(v)
        for k in range(1, n + 1):
            before, value = value, (before - 2 * v * value) / (2 * k)
        return value

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

    def digamma_drop(self, order: Any, x: Any, a: Any) -> Real:
        """The derivative of digamma of that order at x less that at x + a, with the bits that cancel."""
        x, a = self.num(x), self.num(a)
        bits = max(0, self._size(x) - self._size(a)) + 8
        if bits > _BITS:
            return self.nan
        with self.context.extraprec(bits):
            value = self.polygamma(order, x) - self.polygamma(order, x + a)
        return self.real(+value.value)

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
