"""What `tidy` makes of each operation: rows that only rules use become ordinary functions, conditions are folded.

One function a row, `(terms, *arguments) -> item or None`; None keeps the operation as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import e, inf, pi

from gradcli.calculus.patterns import alternatives, positive
from gradcli.calculus.rationals import decimal
from gradcli.calculus.terms import Terms
from gradcli.primitives import BOOLEAN

HALF = Fraction(1, 2)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_RENAMED = {
    "_power": "pow",
    "_minimum": "min",
    "_maximum": "max",
    "_logaddexp": "logaddexp",
    "_erfc": "erfc",
    "_erfcx": "erfcx",
    "_gammaln": "lgamma",
}
_CONSTANTS = {"pi": pi, "e": e, "tau": 2 * pi, "inf": inf, "nan": float("nan")}
_SMALL = 3  # parts of a slope that may be written twice, for a tie


def constant(t: Terms, text: str, value: float) -> int:
    """The item of a constant: exact where it is a short decimal, a formula for the known labels."""
    exact = decimal(text)
    if exact is not None:
        return t.number(exact)
    if text in _CONSTANTS:
        return t.text(text, value)
    if text == "-inf":
        return t.product([(t.text("inf", inf), 1)], -1)
    circle = t.text("pi", pi)
    known: dict[str, Callable[[], int]] = {
        "log(2)": lambda: t.apply("log", t.number(2)),
        "log(10)": lambda: t.apply("log", t.number(10)),
        "180/pi": lambda: t.product([(circle, -1)], 180),
        "pi/180": lambda: t.product([(circle, 1)], Fraction(1, 180)),
        "2/sqrt(pi)": lambda: t.product([(root(t, circle), -1)], 2),
        "sqrt(pi)/2": lambda: t.product([(root(t, circle), 1)], HALF),
        "1/sqrt(2*pi)": lambda: t.product([(root(t, t.product([(circle, 1)], 2)), -1)]),
    }
    return known[text]() if text in known else t.text(text, value)


def root(t: Terms, a: int) -> int:
    """A square root: a power, where powers may be merged."""
    return t.product([(a, HALF)], made=True) if t.bold else t.apply("sqrt", a)


def call(t: Terms, op: str, arguments: tuple[int, ...], column: bool) -> int:
    """The item of an operation that is no sum or product. `column`: whether it has one number per row."""
    op = _RENAMED.get(op, op)
    rewrite = _REWRITES.get(op)
    found = rewrite(t, *arguments) if rewrite else None
    if found is not None:
        return found
    if op in _COMPARE:
        return compare(t, op, *arguments)
    return t.apply(op, *arguments, column=column)


# ---- powers and functions ------------------------------------------------------------------------------------------


def _pow(t: Terms, x: int, p: int) -> int | None:
    exponent = t.value(p)
    if exponent is None or (not isinstance(exponent, int) and not t.bold):
        return None
    if exponent == 0:
        return t.one
    return t.product([(x, exponent)], made=bool(t.made[x]))


def _log(t: Terms, x: int) -> int | None:
    return t.one if t.items[x][:2] == ("text", "e") else t.zero if x == t.one else None


def _exp(t: Terms, x: int) -> int | None:
    return t.one if x == t.zero else None


def _hypot(t: Terms, x: int, y: int) -> int | None:
    for side, other in ((t.value(y), x), (t.value(x), y)):
        if side is not None and t.bold:
            return root(t, t.total([(t.product([(other, 2)]), 1), (t.one, side * side)]))
    return None


def _bessel(op: str) -> Callable[[Terms, int, int], int | None]:
    """Whole negative orders are positive ones (DLMF 10.4.1, 10.27.1, 10.27.3)."""

    def rewrite(t: Terms, n: int, x: int) -> int | None:
        order = t.value(n)
        if not isinstance(order, int) or order >= 0:
            return None
        sign = -1 if op in ("besselj", "bessely") and order % 2 else 1
        return t.product([(t.apply(op, t.number(-order), x), 1)], sign)

    return rewrite


def _bell(t: Terms, x: int) -> int:
    return t.apply("exp", t.product([(x, 2)], -1))


def _expsq(t: Terms, x: int) -> int:
    return t.apply("exp", t.product([(x, 2)]))


def _gauss(t: Terms, x: int) -> int:
    return t.apply("exp", t.product([(x, 2)], -HALF))


def _sech2(t: Terms, x: int) -> int:
    return t.product([(t.apply("sech", x), 2)])


def _one_less_square(t: Terms, x: int) -> int:
    return t.total([(t.one, 1), (t.product([(x, 2)]), -1)])


def _sinc(t: Terms, n: int, x: int) -> int | None:
    """The n-th derivative of sinc: x*s_n = pi^(n-1)*sin(pi*x + n*pi/2) - n*s_(n-1), and its limit at 0."""
    order = t.value(n)
    if not isinstance(order, int):
        return None
    circle, value = t.text("pi", pi), t.apply("sinc", x)
    sine, cosine = t.apply("sinpi", x), t.apply("cospi", x)
    for k in range(1, order + 1):
        wave = t.product([(circle, k - 1), (cosine if k % 2 else sine, 1)], 1 if k % 4 in (0, 1) else -1)
        far = t.product([(t.total([(wave, 1), (value, -k)]), 1), (x, -1)])
        limit = t.zero if k % 2 else t.product([(circle, k)], Fraction((-1) ** (k // 2), k + 1))
        value = t.apply("where", t.apply("ne", x, t.zero), far, limit)
    return value


def _ierfcx(t: Terms, n: int, x: int) -> int | None:
    """exp(x^2) times the n-th repeated integral of erfc: 2k*J_k = J_(k-2) - 2x*J_(k-1)."""
    order = t.value(n)
    if not isinstance(order, int):
        return None
    before, value = t.product([(t.text("pi", pi), -HALF)], 2), t.apply("erfcx", x)
    for k in range(1, order + 1):
        less = t.product([(x, 1), (value, 1)], -2)
        before, value = value, t.product([(t.total([(before, 1), (less, 1)]), 1)], Fraction(1, 2 * k))
    return value


def _digamma_drop(t: Terms, n: int, x: int, a: int) -> int:
    def psi(at: int) -> int:
        return t.apply("digamma", at) if t.value(n) == 0 else t.apply("polygamma", n, at)

    return t.total([(psi(x), 1), (psi(t.total([(term, 1) for term in sorted((x, a))])), -1)])


def _of_rows(t: Terms, x: int) -> int | None:
    return None if t.columns[x] else x


def _first(t: Terms, x: int, *_: int) -> int:
    return x


# ---- conditions ----------------------------------------------------------------------------------------------------


def _float(t: Terms, a: int) -> float | None:
    """The value of a plain constant."""
    number = t.value(a)
    if number is not None:
        return float(number)
    item = t.items[a]
    return item[2] if item[0] == "text" else None


def compare(t: Terms, op: str, a: int, b: int) -> int:
    x, y = _float(t, a), _float(t, b)
    if x is not None and y is not None:
        return t.one if _COMPARE[op](x, y) else t.zero
    if op in ("eq", "ne") and b == t.zero and positive(t, a):
        return t.zero if op == "eq" else t.one
    a = _unclipped(t, a, b)
    for one, extreme in ((a, b), (b, a)) if op == "eq" else ():
        for name, sign in (("max", "ge"), ("min", "le")):
            choices = t.called(extreme, name)
            if choices and len(choices) == 2 and one in choices:
                other = choices[1] if choices[0] == one else choices[0]
                return compare(t, sign, one, other)
    if op == "ne" and b == t.zero and t.items[a][0] == "call" and t.items[a][1] in BOOLEAN:
        return a
    return t.apply(op, a, b)


def _unclipped(t: Terms, a: int, b: int) -> int:
    """`max(x, 0) <= 1` is `x <= 1`: a bound on the far side decides nothing."""
    bound = t.value(b)
    for name, sign in (("max", 1), ("min", -1)):
        choices = t.called(a, name)
        if bound is not None and choices and len(choices) == 2:
            for one, other in (choices, choices[::-1]):
                limit = t.value(other)
                if limit is not None and sign * limit < sign * bound:
                    return one
    return a


def not_(t: Terms, a: int) -> int:
    found = _not(t, a)
    return t.apply("not", a) if found is None else found


def _not(t: Terms, a: int) -> int | None:
    if t.value(a) is not None:
        return t.one if t.value(a) == 0 else t.zero
    for op, contrary in (("eq", "ne"), ("ne", "eq")):
        arguments = t.called(a, op)
        if arguments:
            return t.apply(contrary, *arguments)
    inner = t.called(a, "not")
    return inner[0] if inner else None


def _and(t: Terms, a: int, b: int) -> int | None:
    for one, other in ((a, b), (b, a)):
        if t.value(one) is not None:
            return t.zero if t.value(one) == 0 else other
        equal = t.called(one, "eq")
        if equal and (t.called(other, "ge") == equal or t.called(other, "le") == equal):
            return one
    return a if a == b else None


def _or(t: Terms, a: int, b: int) -> int | None:
    for one, other in ((a, b), (b, a)):
        if t.value(one) is not None:
            return other if t.value(one) == 0 else t.one
    either = alternatives(t, a) | alternatives(t, b)
    if any(not_(t, i) in either for i in either):
        return t.one
    return a if a == b else None


def _gt(t: Terms, a: int, b: int) -> int | None:
    """`abs(x) > 0` is `x != 0`."""
    size = t.called(a, "abs")
    return t.apply("ne", size[0], b) if size and b == t.zero else None


def _where(t: Terms, c: int, a: int, b: int) -> int | None:
    if t.value(c) is not None:
        return b if t.value(c) == 0 else a
    contrary = t.called(c, "not")
    if contrary:
        return t.choice(contrary[0], b, a)
    if t.bold and _is_exp_square(t, a, b):
        return a
    found = (_sign(t, c, a) or _tie(t, c, a)) if b == t.zero else None
    return t.choice(c, a, b) if found is None else found


def _is_exp_square(t: Terms, a: int, b: int) -> bool:
    """Both forms of exp(y^2) for y = erfinv(x), the second being erfcx(|y|)/(1 - |x|)."""
    power = t.called(a, "exp")
    if not power:
        return False
    base = t.split(power[0])[1][:1]
    inverse = t.called(base[0][0], "erfinv") if base else None
    tail = [t.called(f[0], "erfcx") for f in t.split(b)[1]]
    return bool(inverse) and base[0][1] == 2 and (t.apply("abs", base[0][0]),) in tail


def _sign(t: Terms, c: int, a: int) -> int | None:
    """`where(x != 0, sign(x)*f, 0)` is `sign(x)*f` where f is finite at x = 0."""
    tested = t.called(c, "ne")
    if tested is None or tested[1] != t.zero:
        return None
    _, factors = t.split(a)
    sign = [f for f in factors if t.called(f[0], "sign") == (tested[0],) and f[1] == 1]
    rest = all(t.tame[b] and isinstance(e, int) and e > 0 for b, e in factors)
    return a if sign and rest else None


def _tie(t: Terms, c: int, a: int) -> int | None:
    """`where(a >= b, where(a == b, 0.5, 1)*f, 0)` is a choice of three, where f is small enough to be written twice."""
    bounds = t.called(c, "and") or (c,)
    coefficient, rest = t.split(a)
    ties, inner = [], []
    for bound in bounds:
        compared = t.called(bound, "ge") or t.called(bound, "le")
        share = next((f for f in rest if compared and f[1] == 1 and _halves(t, f[0], compared)), None)
        if compared is None or share is None or (len(bounds) == 2 and t.value(compared[1]) is None):
            return None
        rest = tuple(f for f in rest if f is not share)
        ties.append((t.called(share[0], "where") or ())[0])
        inner.append(t.apply("gt" if t.called(bound, "ge") else "lt", *compared))
    if len(rest) > _SMALL or len(set(ties)) != len(bounds):
        return None
    if len(bounds) == 2:  # the lower bound first
        inner.sort(key=lambda i: t.items[i][1] == "lt")
        ties = [t.apply("or", *sorted(ties, key=lambda i: float(t.value(t.items[i][2][1]) or 0)))]
        inner = [t.apply("and", *inner)]
    slope, half = (t.product(rest, coefficient * k, made=True) for k in (1, HALF))
    return t.apply("where", inner[0], slope, t.apply("where", ties[0], half, t.zero))


def _halves(t: Terms, share: int, compared: tuple[int, ...]) -> bool:
    """Whether an item is `where(a == b, 0.5, 1)` of the compared."""
    choice = t.called(share, "where")
    if not choice or t.value(choice[1]) != HALF or t.value(choice[2]) != 1:
        return False
    return set(t.called(choice[0], "eq") or ()) == set(compared)


_REWRITES: dict[str, Callable[..., int | None]] = {
    "pow": _pow,
    "sqrt": root,
    "log": _log,
    "exp": _exp,
    "hypot": _hypot,
    **{op: _bessel(op) for op in ("besselj", "bessely", "besseli", "besselk")},
    "_bell": _bell,
    "_expsq": _expsq,
    "_gauss": _gauss,
    "_sech2": _sech2,
    "_one_less_square": _one_less_square,
    "_ierfcx": _ierfcx,
    "_digamma_drop": _digamma_drop,
    "_sinc": _sinc,
    "_number": _first,
    "_taint": _first,
    "min_rows": _of_rows,
    "max_rows": _of_rows,
    "logsumexp_rows": _of_rows,
    "not": _not,
    "and": _and,
    "or": _or,
    "gt": _gt,
    "where": _where,
}
