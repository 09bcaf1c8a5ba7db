"""Shapes of sums and products that a person writes in another way; `gradcli.calculus.terms` asks for each.

Factors are pairs (item, exponent), terms of a sum pairs (coefficient, item). Everything here is bold: it is the same
number but for isolated points, and what is printed is compared with the engine.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from gradcli.calculus.rationals import Rational, whole

if TYPE_CHECKING:
    from gradcli.calculus.terms import Part, Terms

HANDY = 200  # operations and leaves of what is rearranged as a whole
SHORT = 8  # a sum or product of at most so many parts is taken apart where it is used again
_DEEP = 1  # products inside products that are multiplied out
_FEW = 3  # terms of a sum that may be multiplied out


def without_root(t: Terms, base: int, exponent: Rational) -> Part:
    """An even power of `abs` and `hypot` needs neither; 1/exp(a) is exp(-a)."""
    item = t.items[base]
    if item[0] != "call":
        return base, exponent
    if item[1] == "exp" and exponent < 0:
        return t.apply("exp", t.product([(item[2][0], 1)], -1, True)), -exponent
    if item[1] == "abs" and exponent % 2 == 0:
        return item[2][0], exponent
    if item[1] == "hypot" and exponent % 2 == 0:
        return t.total([(t.product([(a, 2)]), 1) for a in item[2]]), whole(exponent / Fraction(2))
    return base, exponent


def logistic(t: Terms, factors: list[Part]) -> list[Part]:
    """1/(1 + exp(-a)) beside another sigmoid is one, too."""
    if not any(t.called(b, "sigmoid") for b, _ in factors):
        return factors
    found = []
    for base, exponent in factors:
        power = _one_and_power(t, base)
        if exponent < 0 and power:
            base, exponent = t.apply("sigmoid", t.product([(power[0], 1)], -1, True)), -exponent
        found.append((base, exponent))
    return found if len({b for b, _ in found}) == len(found) else factors


def _one_and_power(t: Terms, node: int) -> tuple[int, ...] | None:
    """The exponent of `1 + exp(a)`."""
    item = t.items[node]
    if item[0] != "sum" or len(item[1]) != 2 or (1, t.one) not in item[1] or any(c != 1 for c, _ in item[1]):
        return None
    return next((t.called(m, "exp") for _, m in item[1] if m != t.one), None)


def weight(t: Terms, factors: list[Part]) -> list[Part]:
    """`exp(a - m)/(exp(a - m) + exp(b - m))` is `exp(a - logsumexp(a, b))`."""
    for below in [f[0] for f in factors if f[1] == -1 and t.items[f[0]][0] == "sum"]:
        powers = [t.called(m, "exp") for c, m in t.items[below][1] if c == 1]
        common = [s for s in (shifts(t, powers[0]) if powers else []) if all(s in shifts(t, p) for p in powers)]
        above = [f[0] for f in factors if f[1] == 1 and common and common[0] in shifts(t, t.called(f[0], "exp"))]
        if not above or len(powers) < len(t.items[below][1]):
            continue
        m, c = common[0]
        plain = [t.total([(p[0], 1), (m, -c)]) for p in [*powers, t.called(above[0], "exp")] if p]
        inner = t.total([(plain[-1], 1), (t.apply("logsumexp", *plain[:-1]), -1)])
        return [(t.apply("exp", inner), 1), *(f for f in factors if f[0] not in (below, above[0]))]
    return factors


def shifts(t: Terms, power: tuple[int, ...] | None) -> list[Part]:
    """The choices among the terms of an exponent that keep it in range."""
    item = t.items[power[0]] if power else ("",)
    return [(m, c) for c, m in item[1] if t.called(m, "where")] if item[0] == "sum" else []


def raised(t: Terms, factors: list[Part]) -> list[Part]:
    """`x*x^p` is `x^(p + 1)`."""
    for i, (base, exponent) in enumerate(factors):
        arguments = t.called(base, "pow")
        if arguments and exponent == 1:
            at = next((k for k, (b, e) in enumerate(factors) if b == arguments[0] and isinstance(e, int)), None)
            if at is not None:
                sum_ = t.total([(arguments[1], 1), (t.one, factors[at][1])], True)
                if t.value(sum_) is None:
                    factors[i] = (t.apply("pow", arguments[0], sum_), 1)
                    del factors[at]
                    break
    return factors


def mean(t: Terms, factors: list[Part]) -> list[Part]:
    """A sum over the rows by their number is the mean."""
    rows = next((f for f in factors if f[1] == -1 and t.called(f[0], "rows")), None)
    total = next((f for f in factors if f[1] == 1 and t.called(f[0], "gather")), None)
    if rows is None or total is None:
        return factors
    arguments = t.called(total[0], "gather")
    assert arguments is not None
    (inner,) = arguments
    item = t.items[inner]
    constant = [(m, c) for c, m in item[1] if not t.columns[m]] if item[0] == "sum" else []
    if constant and len(constant) < len(item[1]):  # the mean of x - a is that of x, less a
        varying = t.total([(m, c) for c, m in item[1] if t.columns[m]], True)
        constant.append((t.apply("mean", varying, column=False), 1))
        mean = (t.total(constant, True), 1)
    else:
        mean = (t.apply("mean", inner, column=False), 1)
    return [mean if f is total else f for f in factors if f is not rows]


def conjugates(t: Terms, factors: list[Part]) -> list[Part]:
    """`(1 - x)*(1 + x)` is `1 - x^2`."""
    sums = [f for f in factors if t.items[f[0]][0] == "sum" and len(t.items[f[0]][1]) == 2]
    for i, (a, exponent) in enumerate(sums[:SHORT]):
        for b, other in sums[i + 1 : SHORT]:
            left, right = ({m: c for c, m in t.items[s][1]} for s in (a, b))
            if exponent != other or left.keys() != right.keys() or t.one not in left:
                continue
            same = [m for m in left if left[m] == right[m]]
            opposite = [m for m in left if left[m] == -right[m]]
            if len(same) == 1 and len(opposite) == 1:
                squares = [(t.product([(m, 2)]), sign * left[m] ** 2) for m, sign in ((same[0], 1), (opposite[0], -1))]
                rest = [f for f in factors if f[0] not in (a, b)]
                return [(t.total(squares, True), exponent), *rest]
    return factors


def masked_by(t: Terms, node: int, condition: int) -> bool:
    """Whether every term of a sum is 0 anyway where a condition with `or` does not hold."""
    if t.called(condition, "or") is None:
        return False
    conditions = alternatives(t, condition)
    item = t.items[node]
    terms = [m for _, m in item[1]] if item[0] == "sum" else [node]
    choices = [t.called(m, "where") for m in terms]
    return all(c and c[2] == t.zero and c[0] in conditions for c in choices)


_MOST_ALTERNATIVES = 32  # more are not compared with each other: a chain of choices would cost its square


def alternatives(t: Terms, condition: int) -> set[int]:
    """The conditions that are joined by `or`, and all that such a joint is made of; of a long joint the last ones."""
    found, stack = {condition}, [condition]
    while stack and len(found) < _MOST_ALTERNATIVES:
        inner = t.called(stack.pop(), "or") or ()
        stack += [i for i in inner if i not in found]
        found.update(inner)
    return found


def united(t: Terms, terms: list[tuple[Rational, int]]) -> list[tuple[Rational, int]]:
    """Terms under one condition, or under it and its contrary, are one choice."""
    choices: dict[int, tuple[list[Part], list[Part]]] = {}
    places: dict[int, int] = {}
    rest: list[tuple[Rational, int]] = []
    conditions = {w[0] for _, m in terms if (w := t.called(m, "where"))}
    for c, m in terms:
        arguments = t.called(m, "where")
        if not arguments or t.zero not in arguments[1:]:
            rest.append((c, m))
            continue
        condition, a, b = arguments
        unequal = t.called(condition, "ne")
        equal = t.found.get(("eq", unequal), -1) if unequal else -1
        if equal in conditions:
            condition, a, b = equal, b, a
        sides = choices.setdefault(condition, ([], []))
        if condition not in places:
            places[condition] = len(rest)
            rest.append((1, -1))
        sides[a == t.zero].append((b if a == t.zero else a, c))
    for condition, at in places.items():
        yes, no = choices[condition]
        rest[at] = (1, t.choice(condition, _joined(t, yes), _joined(t, no)))
    return rest


def _joined(t: Terms, parts: list[Part]) -> int:
    """The sum of what is under one condition; looked into only where it is short, so that nothing recurses."""
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    return t.total(parts, made=all(t.sizes[m] <= HANDY for m, _ in parts))


def positive(t: Terms, node: int) -> bool:
    """Whether an item is plainly above 0 for all real numbers: `x^2 + 1`."""
    item = t.items[node]
    match item:
        case ("product", coefficient, factors):
            return bool(coefficient > 0) and all(positive(t, b) for b, e in factors)
        case ("sum", terms):
            return any(m == t.one for _, m in terms) and all(c > 0 and not_negative(t, m) for c, m in terms)
        case ("call", "exp" | "cosh", _):
            return True
    return False


def not_negative(t: Terms, node: int) -> bool:
    coefficient, factors = t.split(node)
    return coefficient >= 0 and all(e % 2 == 0 or t.called(b, "abs") or t.called(b, "exp") for b, e in factors)


def signed(t: Terms, coefficient: Rational, factors: list[Part]) -> tuple[Rational, list[Part]]:
    """`-(a - b)` of what a rule made is `b - a`."""
    for i, (base, exponent) in enumerate(factors):
        item = t.items[base]
        signed = item[0] == "sum" and t.made[base] and len(item[1]) <= SHORT and any(c < 0 for c, _ in item[1])
        if coefficient < 0 and exponent == 1 and signed:
            coefficient = -coefficient
            factors[i] = (t.total([(m, -c) for c, m in item[1]], True), 1)
    return coefficient, factors


def inside(t: Terms, coefficient: Rational, factors: list[Part]) -> int | None:
    """What is finite anyway may be multiplied inside a choice between something and 0."""
    choices = [f for f in factors if f[1] == 1 and t.zero in (t.called(f[0], "where") or ())[1:]]
    if len(choices) != 1 or (len(factors) == 1 and coefficient == 1):
        return None
    rest = [f for f in factors if f is not choices[0]]
    handy = len(rest) <= SHORT and t.sizes[choices[0][0]] <= HANDY
    if not handy or not all(t.tame[b] and isinstance(e, int) and e > 0 for b, e in rest):
        return None
    condition, *sides = t.called(choices[0][0], "where") or ()
    return t.choice(condition, *(t.product([*rest, (side, 1)], coefficient, True) for side in sides))


def made_sum(t: Terms, monic: int) -> Part | None:
    """The one short sum of a rule's among the factors of a product that is short, too."""
    if t.depth > _DEEP or t.sizes[monic] > HANDY:
        return None
    found = [f for f in t.split(monic)[1] if f[1] == 1 and t.items[f[0]][0] == "sum" and t.made[f[0]]]
    short = len(found) == 1 and len(t.items[found[0][0]][1]) <= _FEW
    return found[0] if short and t.items[monic][0] == "product" else None


def multiplied_out(t: Terms, monic: int) -> list[tuple[Rational, int]]:
    """A product with a sum, multiplied out."""
    coefficient, factors = t.split(monic)
    inner = next(f for f in factors if f[1] == 1 and t.items[f[0]][0] == "sum" and t.made[f[0]])
    rest = [f for f in factors if f is not inner]
    return [(coefficient * c, t.product([*rest, (m, 1)], 1, True)) for c, m in t.items[inner[0]][1]]


def distributed(t: Terms, coefficient: Rational, factors: list[Part]) -> int | None:
    """A product with a sum that a rule made, multiplied out where that is no longer."""
    whole_ = t.monomial(coefficient, tuple(factors), True)
    if made_sum(t, whole_) is None or (len(factors) == 1 and coefficient.denominator != 1):
        return None
    t.depth += 1
    spread = t.total([(m, c) for c, m in multiplied_out(t, whole_)], True)
    t.depth -= 1
    return spread if t.sizes[spread] <= t.sizes[whole_] + 1 else None
