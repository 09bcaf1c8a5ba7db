"""Longer rules and formulas of the table, each the one place of a convention.

A rule is a VJP: (g, y, *arguments) to one cotangent for each argument. A formula computes a row from other rows. Both
append nodes, they compute nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, inf, log, pi, sqrt

from gradcli.cotangent import Cotangent
from gradcli.graph import Known, Node, f, is_simple

Rule = Callable[..., tuple[Cotangent | None, ...]]
Pair = tuple[Cotangent, Cotangent]
LN2, LN10, PI = Known(log(2), "log(2)"), Known(log(10), "log(10)"), Known(pi, "pi")
RADIAN, DEGREE = Known(180 / pi, "180/pi"), Known(pi / 180, "pi/180")
ERF, HALF_ERF, DENSITY = (
    Known(2 / sqrt(pi), "2/sqrt(pi)"),
    Known(0.886226925452758, "sqrt(pi)/2"),
    Known(1 / sqrt(2 * pi), "1/sqrt(2*pi)"),
)
SELU = Known(1.0507009873554805, "1.0507009873554804934193349852946")
SELU_ALPHA = Known(1.6732632423543772, "1.6732632423543772848170429916717")


def pow_rule(g: Cotangent, y: Node, x: Node, p: Node) -> Pair:
    """x^0 has slope 0 also at 0; by the exponent: 0 at base 0 with exponent >= 0, nan below base 0 (PyTorch).

    Elsewhere x^0 has the slope p*x^(p - 1), which is 0 but no constant: its slope by the exponent is 1/x. Below 1/2 the
    difference p - 1 rounds, which x^(p - 1) multiplies by log(x), up to 200 ulp; there x^p / x is in range wherever the
    slope is. From 1/2 on p - 1 is exact.
    """
    by_exponent = (g * y * f.log(x)).only(~(f.eq(x, 0) & (p >= 0)))
    k, number = p.simple(), p.value()
    if k is not None and is_simple(k - 1):
        if k == 0:
            return g.zero(), (g * y * f.log(x)).only(f.ne(x, 0))
        return g * k * (x if k == 2 else f.pow(x, k - 1) if k != 1 else 1.0), by_exponent
    if number is not None and number >= 0.5:
        return g * p * f.pow(x, p - 1.0), by_exponent
    ratio = y / x
    usable = f.eq(ratio, ratio)
    if number is not None:
        return g * p * f.where(usable, ratio, f.pow(x, p - 1.0)), by_exponent
    slope = f.where(usable & (p < 0.5), p * y / x, p * f.pow(x, p - 1.0))
    return (g * slope).only(f.ne(p, 0) | (f.abs(x) > 0)), by_exponent


def half_power(x: Node, k: float) -> Node:
    """1/2, 3/2 and 5/2 by the square root, which value and slope share (2 ulp); nan below 0, -inf included.

    The root of -0 is -0, but other powers of it are 0 and inf: its sign goes twice into the product, or not at all.
    """
    root = f.sqrt(x)
    if k == 0.5:
        return root
    root = f.abs(root) if abs(k) != 1.5 else root
    result = root if k > 0 else 1.0 / root
    for _ in range(int(abs(k))):
        result = result * x if k > 0 else result / x
    return result


def pow_formula(x: Node, p: Node) -> Node:
    """Small whole exponents by multiplication (3 ulp), negative ones by repeated division, so that no square overflows.

    From x^6 on the roundings would add up to more than 4 ulp in the slope.
    """
    k = p.value()
    if k is not None and abs(k) in (0.5, 1.5, 2.5):
        return half_power(x, k)
    if k is None or not k.is_integer() or not -3 <= k <= 5:
        return f._power(x, p)
    if k < 0:
        result = 1.0 / x
        for _ in range(int(-k) - 1):
            result = result / x
        return result
    if k == 0:
        return f.spread(1.0, x)
    square, product, bits = x, None, int(k)
    while bits:
        if bits & 1:
            product = square if product is None else product * square
        bits >>= 1
        if bits:
            square = square * square
    assert product is not None
    return product


def fold(op: str) -> Callable[..., Node]:
    """A two-argument ufunc over any number of arguments, from the left."""

    def formula(*arguments: Node) -> Node:
        result = arguments[0]
        for other in arguments[1:]:
            result = result.apply(op, other)
        return result

    return formula


def select_rule(g: Cotangent, y: Node, *arguments: Node) -> tuple[Cotangent, ...]:
    """Ties of max and min are shared evenly among the tied arguments, numbers included."""
    if len(arguments) == 2:
        share = g * f.where(f.eq(*arguments), 0.5, 1.0)
    else:
        share = g / fold("add")(*(f.eq(a, y) for a in arguments))
    return tuple(share.only(f.eq(a, y)) for a in arguments)


def difference(a: Node, b: Node) -> tuple[Node, Node]:
    """a - b, and what its rounding left out (Knuth's two-sum): exp multiplies it by the size of the difference."""
    d = a - b
    back = d + b
    error = (a - back) - (b - (back - d))
    return d, f.where(f.eq(error, error), error, 0.0)


def finite(top: Node) -> Node:
    """What may be subtracted from every argument to keep exp in range: an infinite largest is left alone."""
    return f.where(f.eq(f.abs(top), inf), 0.0, top)


def exp_difference(a: Node, b: Node) -> Node:
    """exp(a - b) with the rounding error of the difference put back."""
    d, error = difference(a, b)
    e = f.exp(d)
    return e + e * error


def logsumexp_rule(g: Cotangent, y: Node, *arguments: Node) -> tuple[Cotangent, ...]:
    """Weights from the arguments against each other, never against the rounded result."""
    top = finite(fold("_maximum")(*arguments))
    parts = [exp_difference(a, top) for a in arguments]
    total = fold("add")(*parts)
    return tuple(g * (part / total) for part in parts)


def logaddexp_rule(g: Cotangent, y: Node, a: Node, b: Node) -> Pair:
    """sigmoid(a - b), with the rounding error of the difference put back: it counts in the tail."""
    d, error = difference(a, b)
    weight, other = f.sigmoid(d), f.sigmoid(-d)
    shift = weight * other * error
    return g * (weight + shift), g * (other - shift)


def gauss(scale: float) -> Callable[[Node], Node]:
    """exp(-scale*x^2) without the rounding error of the square (Cody): x = h + r with h^2 exact."""

    def formula(x: Node) -> Node:
        x = f._minimum(f._maximum(x, -64.0), 64.0)
        h = f.round(x * 32.0) * (1 / 32)
        return f.exp(h * h * -scale) * f.exp((h - x) * (h + x) * scale)

    return formula


def sech2_formula(x: Node) -> Node:
    """From tanh, which is there already, where 1 - tanh(x)^2 does not cancel; else from the exponential."""
    y, e = f.tanh(x), f.exp(f.abs(x) * -2.0)
    return f.where(f.abs(x) < 1.0, (1.0 - y) * (1.0 + y), e * 4.0 / (1.0 + e) / (1.0 + e))


def half_turns(x: Node) -> Node:
    """x less its nearest even number: -1 to 1."""
    return x - f.round(x * 0.5) * 2.0


def sinpi_formula(x: Node) -> Node:
    r = half_turns(x)
    return f.sin(f.where(f.abs(r) > 0.5, f.copysign(1.0, r) - r, r) * pi)


def sinc_formula(n: Node, x: Node) -> Node:
    """The n-th derivative of sin(pi*x)/(pi*x), which is pi^n times the integral of u^n cos(pi*x*u + n*pi/2) over 0..1:
    near 0 by its Taylor series, elsewhere by the recurrence t*s_n = sin(t + n*pi/2) - n*s_(n-1)."""
    number = n.value()
    assert number is not None
    order = int(number)
    odd = order % 2
    t = x * pi
    square = t * t
    coefficient, coefficients = (-1.0) ** ((order + odd) // 2), []
    for m in range(odd, 24 + 4 * order + odd, 2):
        coefficients.append(coefficient / (order + m + 1))
        coefficient /= -(m + 1) * (m + 2)
    series = x * 0.0 + coefficients[-1]
    for c in coefficients[-2::-1]:
        series = series * square + c
    sine, cosine = f.sinpi(x), f.cospi(x)
    phases = (sine, cosine, -sine, -cosine)
    far = sine / t
    for m in range(1, order + 1):
        far = (phases[m % 4] - far * m) / t
    return f.where(f.abs(t) < 1.5 + order / 3, series * t if odd else series, far) * pi**order


def ierfcx_formula(n: Node, x: Node) -> Node:
    """exp(x^2) times the n-th repeated integral of erfc: J_0 = erfcx(x), J_-1 = 2/sqrt(pi), and
    2k*J_k = J_(k-2) - 2x*J_(k-1) (DLMF 7.18.7).

    That cancels for large x. There erfcx is multiplied by the quotients r_k = J_k/J_(k-1) = 1/(2x + 2(k+1)*r_(k+1)), a
    sum of positive terms, from so far off that what an estimate of the last one is off by no longer counts.
    """
    number = n.value()
    assert number is not None
    order = int(number)
    value, twice = f.erfcx(x), x * 2.0
    near, before = value, x * 0.0 + ERF
    for k in range(1, order + 1):
        near, before = (before - twice * near) / (2.0 * k), near
    last = 40 + 4 * order
    far, quotient, quotients = value, 1.0 / (x + f.sqrt(x * x + (2.0 * last + 1.0))), []
    for k in range(last - 1, 0, -1):
        quotient = 1.0 / (twice + quotient * (2.0 * (k + 1)))
        quotients.append(quotient)
    for quotient in quotients[: -order - 1 : -1]:
        far = far * quotient
    return f.where(x < 2.0, near, far)


# fmt: off
_LGAMMA = (  # 1 - Euler's constant, then (-1)^k*(zeta(k) - 1)/k
    0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
    0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939,
    9.945751278180853e-05, -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06,
    4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
    2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08,
    1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09,
    5.731367241678862e-10,
)
# fmt: on


def lgamma_formula(x: Node) -> Node:
    """By its series around the zero at 2, and at 1 with log(x) taken off (DLMF 5.7.3): scipy loses its digits there."""
    z = x - f.where(x < 1.5, 1.0, 2.0)
    series = z * _LGAMMA[-1]
    for c in _LGAMMA[-2::-1]:
        series = (series + c) * z
    near = f.where(x < 1.5, series - f.log1p(z), series)
    return f.where((x > 0.5) & (x < 2.5), near, f._gammaln(x))


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)  # B_2, B_4, ...


def digamma_drop_formula(n: Node, x: Node, a: Node) -> Node:
    """The n-th derivative of digamma at x less that at x + a, all of whose terms have one sign where both are positive.

    By the recurrence ten steps up (DLMF 5.15.5), from there by the asymptotic series (DLMF 5.11.2, 5.15.8): differences
    of powers of q = 1/(x + a) and p = 1/x, which are q^(m+1) - p^(m+1) = q*(q^m - p^m) + p^m*(q - p), with
    q - p = -a*p*q.
    """
    number = n.value()
    assert number is not None
    order = int(number)

    def differences(x: Node, most: int) -> list[Node]:
        p, q = 1.0 / x, 1.0 / (x + a)
        first = -(a * q * p)
        found, power = [first], p
        while len(found) < most:
            found.append(q * found[-1] + power * first)
            power = power * p
        return found

    up = x + 10.0
    far = differences(up, order + 2 * len(_BERNOULLI))
    total = far[order] * (factorial(order) / 2)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + far[order + 2 * k - 1] * (bernoulli * factorial(2 * k + order - 1) / factorial(2 * k))
    total = total - f.log1p(a / up) if order == 0 else total + far[order - 1] * factorial(order - 1)
    for step in range(10):
        total = total + differences(x + float(step), order + 1)[order] * factorial(order)
    here, there = (f.digamma(at) if order == 0 else f.polygamma(n, at) for at in (x, x + a))
    return f.where((x > 0) & (x + a > 0), -total if order % 2 else total, here - there)


def others_formula(x: Node) -> Node:
    """For each row the product of the others: finite also where one of them is 0."""
    zero = f.eq(x, 0)
    zeros = f.gather(f._number(zero))
    single = f.spread(f.where(f.eq(zeros, 1), f.prod_rows(f.where(zero, 1.0, x)), 0.0), x)
    return f.where(zero, single, f.where(f.spread(f.eq(zeros, 0), x), f.spread(f.prod_rows(x), x) / x, 0.0))


def others_rule(g: Cotangent, y: Node, x: Node) -> tuple[Cotangent]:
    """For each row the sum over the others of cotangent times the product of what is left.

    Factors that are 0 enter as their elementary symmetric polynomials, by Newton's identities from sums of powers: most
    of these are 0, but have slopes, so that derivatives of `prod` are right up to the third, whichever factors are 0.
    """
    zero, c = f.eq(x, 0), Node(x.graph, g.node())
    small, above, below = f.where(zero, x, 0.0), f.where(zero, c, 0.0), f.where(zero, 0.0, c / x)
    zeros, rest = f.gather(f._number(zero)), finite(f.prod_rows(f.where(zero, 1.0, x)))
    total, squares = f.gather(small), f.gather(small * small)
    other = total - small  # zeros

    def where_there_are(*values: Node | float) -> Node | float:
        found: Node | float = 0.0
        for count, value in reversed(list(enumerate(values))):
            found = f.where(f.eq(zeros, count), value, found)
        return found

    second = (other * other - (squares - small * small)) * 0.5
    of_zeros = f.gather(above * where_there_are(0.0, 1.0, other, second))
    by_nonzero = of_zeros + where_there_are(1.0, total, (total * total - squares) * 0.5) * (f.gather(below) - below)
    pairs = f.gather(above * other) - above * other - small * (f.gather(above) - above)
    by_zero = where_there_are(0.0, 0.0, f.gather(above) - above, pairs)
    by_zero = by_zero + where_there_are(0.0, 1.0, other) * f.gather(below)
    return (Cotangent(x.graph, (rest * f.where(zero, by_zero, by_nonzero / x)).index),)


def extreme_rule(g: Cotangent, y: Node, x: Node) -> tuple[Cotangent]:
    tied = f.eq(x, f.spread(y, x))
    return ((g / f.gather(f._number(tied))).spread(x).only(tied),)


def centred(x: Node) -> Node:
    """x less its mean, by way of the smallest: exactly 0 where all are equal, also where their mean would round."""
    above = x - f.spread(f.detach(f.min_rows(x)), x)
    return above - f.spread(f.gather(above) / f.rows(x), x)


def softmax_formula(x: Node) -> Node:
    e = exp_difference(x, f.spread(finite(f.max_rows(x)), x))
    return e / f.spread(f.gather(e), x)


def softmax_rule(g: Cotangent, y: Node, x: Node) -> tuple[Cotangent]:
    inner = g * y
    return (inner.plus(-(inner.gather(x).spread(x) * y)),)


def logsumexp_rows_formula(x: Node) -> Node:
    top = finite(f.max_rows(x))
    return top + f.log(f.gather(f.exp(x - f.spread(top, x))))


def gradient_free(count: int) -> Rule:
    return lambda g, y, *arguments: (None,) * count


def flat(count: int) -> Rule:
    return lambda g, y, *arguments: (g.zero(),) * count
