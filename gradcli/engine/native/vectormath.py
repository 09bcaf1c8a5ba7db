"""Elementary functions over vectors: the reductions and polynomials of the literature, written over `Value`.

Each is at most 2 ulp off over the whole range (tests/engine/test_native.py), which the vector functions of the C
library are not (exp, sin and cos up to 3.5), and shares its reduction with its siblings: the sine and cosine of one
angle cost little more than one of them. Special values as C99 and numpy have them. Products that are `fma` here are so
on every machine that runs this code.

fdlibm = the functions of Sun's freely distributable library, whose error analysis holds here too.
"""

from __future__ import annotations

from math import inf, nan, sqrt

from gradcli.engine.native.emit import Value

MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to a whole number, which is then in the low bits
LOG2E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has 32 bits: its multiples are exact
# (exp(r) - 1 - r - r^2/2)/r^3 on |r| <= log(2)/2, error 1e-18
EXP = (0.16666666666666669, 0.041666666666666664, 0.008333333333330062, 0.0013888888888886552, 0.00019841269863053618,
       2.4801587317144498e-05, 2.7557268459997064e-06, 2.755728296954995e-07, 2.510038549551032e-08,
       2.0911236630261545e-09)  # fmt: skip
# of fdlibm's log: (log((1+s)/(1-s)) - 2s)/s in s^2
LOG = (0.6666666666666735, 0.3999999999940942, 0.2857142874366239, 0.22222198432149784, 0.1818357216161805,
       0.15313837699209373, 0.14798198605116586)  # fmt: skip
# (sin(r) - r + r^3/6)/r^5 and (cos(r) - 1 + r^2/2)/r^4 in r^2 on |r| <= pi/4
SIN = (0.008333333333333333, -0.00019841269841268963, 2.7557319222323764e-06, -2.5052107235693167e-08,
       1.6058684257431606e-10, -7.595301509942013e-13)  # fmt: skip
COS = (0.041666666666666664, -0.0013888888888887395, 2.4801587298763433e-05, -2.7557317270560326e-07,
       2.0876146024689747e-09, -1.1382614868556325e-11)  # fmt: skip
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)  # pi/2 in three doubles
TWO_OVER_PI = 0.6366197723675814
FAR = 2.0**29  # angles from here on go to the C library, lane by lane
ONE_BITS, ROOT_BITS = 0x3FF0000000000000, 0x3FE6A09E667F3BCD  # of 1 and sqrt(1/2)
FRACTION = 0x000FFFFFFFFFFFFF
TINY = 2.2250738585072014e-308  # the least normal number


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """c0 + c1*x + ..., the even and the odd powers side by side."""
    square = x * x
    halves = []
    for part in (coefficients[::2], coefficients[1::2]):
        total = x.code.number(part[-1])
        for c in part[-2::-1]:
            total = total.fma(square, c)
        halves.append(total)
    return halves[1].fma(x, halves[0])


# ---- exponentials ----------------------------------------------------------------------------------------------------


def _reduced_exp(x: Value) -> tuple[Value, Value, Value, Value]:
    """x = k*log(2) + r: k as a double, k in the low bits of an integer, r, and t with exp(r) = 1 + (r + t)."""
    shifted = x.fma(LOG2E, MAGIC)
    k = shifted - MAGIC
    high = k.fma(-LN2_HIGH, x)
    r = k.fma(-LN2_LOW, high)
    low = k.fma(-LN2_LOW, high - r)  # what the rounding of r left out
    return k, shifted.bits(), r, _exp_tail(r, low)


def _exp_tail(r: Value, low: Value) -> Value:
    return (r * r).fma(polynomial(r, EXP).fma(r, 0.5), low)


def _power_of_two(k: Value, beside: int = 0) -> Value:
    """2^(k + beside) of an integer in the low bits, for a normal result."""
    return k.plus(1023 + beside).shifted_left(52).double()


def _scaled(x: Value, k: Value, large: Value, beside: int = 0) -> Value:
    """x * 2^(k + beside) in two steps, so that neither factor is out of range: large results and subnormal ones."""
    shift = large.select(k.code.number(-64, "i"), k.code.number(64, "i"))
    return x * _power_of_two(k.plus(shift), beside) * large.select(2.0**64, 2.0**-64)


def _clamped(x: Value, low: float, high: float) -> Value:
    """Within bounds, nan as it is."""
    x = (x < low).select(low, x)
    return (x > high).select(high, x)


def exp(x: Value) -> Value:
    _, k, r, t = _reduced_exp(_clamped(x, -746.0, 710.0))
    return _scaled(1.0 + (r + t), k, x > 0.0)


def exp2(x: Value) -> Value:
    clamped = _clamped(x, -1076.0, 1025.0)
    shifted = clamped + MAGIC
    part = clamped - (shifted - MAGIC)
    r = part * 0.6931471805599453
    low = part.fma(2.3190468138462996e-17, part.fma(0.6931471805599453, -r))
    return _scaled(1.0 + (r + _exp_tail(r, low)), shifted.bits(), x > 0.0)


def _expm1_parts(x: Value) -> tuple[Value, Value, Value]:
    """(exp(x) - 1) * 2^-k as a sum of two, the second small, and k; for x between -40 and 711."""
    k, bits, r, t = _reduced_exp(x)
    small = (k > 100.0).select(100.0, k) + MAGIC
    ending = 1.0 - _power_of_two(x.code.number(0, "i").minus(small.bits()))  # 1 - 2^-k
    high = ending + r
    back = high - ending
    error = (ending - (high - back)) + (r - back)
    return high, error + t, bits


def expm1(x: Value) -> Value:
    clamped = _clamped(x, -40.0, 710.0)
    high, low, k = _expm1_parts(clamped)
    return _scaled(high + low, k, x > 1.0).copysign(x)


def sinh(x: Value) -> Value:
    """e/2 + e/2/(e + 1), e = exp|x| - 1: at half its size e does not overflow before the result does."""
    size = abs(x)
    high, low, k = _expm1_parts(_clamped(size, 0.0, 711.0))
    half = _scaled(high + low, k, size > 1.0, -1)
    found = (size > 40.0).select(half, half + half / (half * 2.0 + 1.0))
    return (size < 1e-8).select(size, found).copysign(x)


def cosh(x: Value) -> Value:
    size = abs(x)
    _, k, r, t = _reduced_exp(_clamped(size, 0.0, 711.0))
    half = _scaled(1.0 + (r + t), k, size > 1.0, -1)
    return half + 0.25 / half


def tanh(x: Value) -> Value:
    """e/(e + 2), e = exp(2|x|) - 1, both times 2^-k; the quotient with what its parts left out: 1 - tanh^2 needs it."""
    high, low, k = _expm1_parts(_clamped(abs(x) * 2.0, 0.0, 45.0))
    two = _power_of_two(x.code.number(0, "i").minus(k), 1)
    e = high + low
    e_error = (high - e) + low
    below = e + two
    back = below - e
    below_error = (two - back) + (e - (below - back)) + e_error
    inverse = 1.0 / below
    quotient = e * inverse
    rest = (-quotient).fma(below, e) + (-quotient).fma(below_error, e_error)
    return rest.fma(inverse, quotient).copysign(x)


# ---- logarithms ------------------------------------------------------------------------------------------------------


def _reduced_log(x: Value) -> tuple[Value, Value]:
    """x = 2^k*m, sqrt(1/2) <= m < sqrt(2): k and m, for normal x."""
    bits = x.bits().plus(ONE_BITS - ROOT_BITS)
    k = bits.shifted_right(52).plus(0x4330000000000000).double() - (2.0**52 + 1023.0)
    return k, bits.masked(FRACTION).plus(ROOT_BITS).double()


def _log_of_reduced(f: Value, k: Value, low: Value | float) -> Value:
    """log(1 + f) + k*log(2) + low (fdlibm)."""
    half = f * f * 0.5
    s = f / (f + 2.0)
    z = s * s
    rest = half + z * polynomial(z, LOG)
    return k.fma(LN2_HIGH, f - (half - s.fma(rest, k.fma(LN2_LOW, low))))


def _log_edges(x: Value, zero: float, result: Value) -> Value:
    """-inf at `zero`, nan below, inf at inf."""
    result = (x < inf).select(result, x)  # inf and nan
    result = x.compare("oeq", zero).select(-inf, result)
    return (x < zero).select(nan, result)


def log(x: Value) -> Value:
    tiny = x < TINY
    k, m = _reduced_log(tiny.select(x * 2.0**54, x))
    return _log_edges(x, 0.0, _log_of_reduced(m - 1.0, k - tiny.select(54.0, 0.0), 0.0))


def log1p(x: Value) -> Value:
    """log of u = 1 + x, with the rounding error of u put back: divided by u, it is its share of the logarithm."""
    u = x + 1.0
    k, m = _reduced_log(u)
    error = (k > 1.0).select(1.0 - (u - x), x - (u - 1.0)) / u
    near = (x > sqrt(0.5) - 1.0) & (x < sqrt(2.0) - 1.0)
    f, k = near.select(x, m - 1.0), near.select(0.0, k)
    return _log_edges(x, -1.0, _log_of_reduced(f, k, near.select(0.0, error))).copysign(x)


# ---- circular functions ----------------------------------------------------------------------------------------------


def _reduced_angle(x: Value) -> tuple[Value, Value, Value]:
    """x = k*pi/2 + r + low, |r| <= pi/4: k in the low bits of an integer, r, low (Cody and Waite, three parts)."""
    shifted = x.fma(TWO_OVER_PI, MAGIC)
    k = shifted - MAGIC
    first = k.fma(-HALF_PI[0], x)  # exact
    product = k * HALF_PI[1]
    product_error = k.fma(HALF_PI[1], -product)
    second = first - product
    back = second - first
    error = (first - (second - back)) - (product + back)
    tail = k.fma(-HALF_PI[2], error - product_error)
    r = second + tail
    return shifted.bits(), r, (second - r) + tail


def _sin_of_reduced(r: Value, low: Value) -> Value:
    z = r * r
    cube = z * r
    inner = z.fma(cube * polynomial(z, SIN) - low * 0.5, low)
    return r + cube.fma(-1 / 6, inner)


def _cos_of_reduced(r: Value, low: Value) -> Value:
    z = r * r
    half = z * 0.5
    top = 1.0 - half
    rest = (z * z).fma(polynomial(z, COS), -(r * low))
    return top + (((1.0 - top) - half) + rest)


def _quadrant(x: Value, turn: int) -> Value:
    """sin(x + turn*pi/2)."""
    k, r, low = _reduced_angle(x)
    k = k.plus(turn) if turn else k
    odd = k.masked(1).compare("ne", 0)
    found = odd.select(_cos_of_reduced(r, low), _sin_of_reduced(r, low))
    sign = k.masked(2).shifted_left(62)
    return x.code.emit("i", "xor {i} {0}, {1}", found.bits(), sign).double()


def _near(x: Value, usual: Value, name: str) -> Value:
    """Huge angles, inf and nan by the C library."""
    return x.code.unlikely(abs(x).compare("uge", FAR), usual, x.code.module.each(name, 1), x)


def sin(x: Value) -> Value:
    return _near(x, x.compare("oeq", 0.0).select(x, _quadrant(x, 0)), "sin")


def cos(x: Value) -> Value:
    return _near(x, _quadrant(x, 1), "cos")


def tan(x: Value) -> Value:
    k, r, low = _reduced_angle(x)
    odd = k.masked(1).compare("ne", 0)
    sine, cosine = _sin_of_reduced(r, low), _cos_of_reduced(r, low)
    found = odd.select(-cosine, sine) / odd.select(sine, cosine)
    return _near(x, x.compare("oeq", 0.0).select(x, found), "tan")


FUNCTIONS = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "log": log,
    "log1p": log1p,
    "sin": sin,
    "cos": cos,
    "tan": tan,
}
NEEDS = {"sin": "sin", "cos": "cos", "tan": "tan"}  # the scalar functions that they call for huge angles
