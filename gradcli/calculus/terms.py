"""Sums and products with exact coefficients, interned: the algebra behind `tidy`, which is for printing only.

An item is a number, a leaf, a name, a call, a product `coefficient * base^exponent * ...` or a sum of products. Equal
items are one item, whatever the order they were written in; the first order seen is the one that is printed.

Two levels of boldness. The safe one merges only what is the same number everywhere, special points included. The bold
one takes `x*x^-1` for 1, `x^(1/2)` squared for x, `c - c` for 0 and `(1 - x)*(1 + x)` for `1 - x^2`: what a person
expects, and what `gradcli.derivation` compares with the engine before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any, TypeAlias

Rational: TypeAlias = "int | Fraction"
Factors: TypeAlias = "tuple[tuple[int, Rational], ...]"
Part: TypeAlias = "tuple[int, Rational]"  # an item, and its exponent in a product or its coefficient in a sum

_FEW = 3  # terms of a sum that may be multiplied out
_SHORT = 8  # a sum or product of at most so many parts is taken apart where it is used again
_LARGE = 1 << 30
_BITS = 200  # of a coefficient; beyond, it is rounded to a float
_TAME = frozenset(
    "sin cos tanh sech atan asinh erf erfc exp sinh cosh sigmoid softplus normcdf normpdf sign floor ceil round trunc "
    "abs min max gather mean rows where".split()
)  # finite wherever their arguments are


class Terms:
    """Items by number, in birth order: what an item is made of has smaller numbers."""

    def __init__(self, bold: bool) -> None:
        self.bold = bold
        self.items: list[tuple[Any, ...]] = []
        self.columns = bytearray()
        self.fixed = bytearray()  # made of numbers only
        self.tame = bytearray()  # finite wherever the leaves are
        self.made = bytearray()  # by a rule, not written by the user
        self.sizes: list[int] = []  # operations and leaves when written out
        self._found: dict[Hashable, int] = {}
        self.zero, self.one = self.number(0), self.number(1)

    # ---- leaves of the algebra ---------------------------------------------------------------------------------------

    def _new(self, key: Hashable, item: tuple[Any, ...], column: int, fixed: int, tame: int, made: bool = True) -> int:
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = len(self.items)
            self.items.append(item)
            self.columns.append(column)
            self.fixed.append(fixed)
            self.tame.append(tame)
            self.made.append(made)
            self.sizes.append(self._size(item))
        return found

    def _size(self, item: tuple[Any, ...]) -> int:
        match item:
            case ("call", _, arguments):
                size = 1 + sum(self.sizes[a] for a in arguments)
            case ("sum", terms):
                size = sum(self.sizes[m] + 1 + (abs(c) != 1) for c, m in terms)
            case ("product", coefficient, factors):
                size = (abs(coefficient) != 1) + sum(self.sizes[b] + 1 + 2 * (abs(e) != 1) for b, e in factors)
            case _:
                size = 1
        return min(size, _LARGE)

    def number(self, value: Rational) -> int:
        value = bounded(value)
        return self._new(("number", value), ("product", value, ()), 0, 1, 1)

    def text(self, text: str, value: float) -> int:
        """A constant that is not rational, or too long to be treated as one: printed as it is."""
        return self._new(("text", text), ("text", text, value), 0, 1, int(abs(value) < float("inf")))

    def leaf(self, label: str, column: bool) -> int:
        return self._new(("leaf", label), ("leaf", label), int(column), 0, 1)

    def name(self, inner: int, label: str) -> int:
        """A definition that is kept: never the same as another."""
        return self._new(("name", label), ("name", label, inner), self.columns[inner], 0, 0)

    def apply(self, op: str, *arguments: int, column: bool | None = None) -> int:
        """A call as it is; `column` where it is not what the arguments are."""
        if column is None:
            column = any(self.columns[a] for a in arguments)
        fixed = op not in ("gather", "rows") and all(self.fixed[a] for a in arguments)
        tame = op in _TAME and all(self.tame[a] for a in arguments[op == "where" :])
        return self._new((op, arguments), ("call", op, arguments), int(column), int(fixed), int(tame))

    def called(self, node: int, op: str) -> tuple[int, ...] | None:
        """The arguments of a call of `op`, or None."""
        item = self.items[node]
        return item[2] if item[0] == "call" and item[1] == op else None

    def value(self, node: int) -> Rational | None:
        """The number that an item is, or None."""
        item = self.items[node]
        return item[1] if item[0] == "product" and not item[2] else None

    def split(self, node: int) -> tuple[Rational, Factors]:
        """Coefficient and factors."""
        item = self.items[node]
        return (item[1], item[2]) if item[0] == "product" else (1, ((node, 1),))

    # ---- products ----------------------------------------------------------------------------------------------------

    def product(self, parts: Iterable[Part], coefficient: Rational = 1, made: bool = False) -> int:
        """The product of items to the power of their exponents."""
        powers: dict[Hashable, list[Any]] = {}

        def put(base: int, exponent: Rational) -> None:
            base, exponent = self._without_root(base, exponent) if self.bold else (base, exponent)
            key = base if self.bold else (base, exponent > 0)
            if key in powers:
                powers[key][1] = whole(powers[key][1] + exponent)
            else:
                powers[key] = [base, exponent]

        for node, exponent in parts:
            factor = self._apart(node, exponent, put)
            coefficient = coefficient if factor == 1 else bounded(coefficient * factor)
        if coefficient == 0:
            return self.zero
        for base, exponent in list(powers.values()) if self.bold else ():
            if (base, exponent) != (other := self._without_root(base, exponent)):
                del powers[base]
                put(*other)
        factors = []
        for base, exponent in powers.values():
            number = self.value(base)
            steps = int(exponent) if number is not None and not isinstance(exponent, int) else 0
            if number and steps and (raised := power(number, steps)) is not None:  # 2^1.5 is 2*sqrt(2)
                coefficient, exponent = bounded(coefficient * raised), whole(exponent - steps)
            if exponent != 0:
                factors.append((base, exponent))
        if self.bold and len(factors) > 1:
            factors = self._mean(self._raised(factors))
            factors = self._weight(self._conjugates(factors)) if made else factors
        if made:
            factors.sort(key=self._rank)
            if self.bold:
                coefficient, factors = self._signed(coefficient, factors)
                inside = self._inside(coefficient, factors)
                inside = self._distributed(coefficient, factors) if inside is None else inside
                if inside is not None:
                    return inside
        return self.monomial(coefficient, tuple(factors), made)

    def _without_root(self, base: int, exponent: Rational) -> Part:
        """An even power of `abs` and `hypot` needs neither; 1/exp(a) is exp(-a)."""
        item = self.items[base]
        if item[0] != "call":
            return base, exponent
        if item[1] == "exp" and exponent < 0:
            return self.apply("exp", self.product([(item[2][0], 1)], -1, True)), -exponent
        if item[1] == "abs" and exponent % 2 == 0:
            return item[2][0], exponent
        if item[1] == "hypot" and exponent % 2 == 0:
            return self.total([(self.product([(a, 2)]), 1) for a in item[2]]), whole(exponent / Fraction(2))
        return base, exponent

    def _signed(self, coefficient: Rational, factors: list[Part]) -> tuple[Rational, list[Part]]:
        """`-(a - b)` of what a rule made is `b - a`."""
        for i, (base, exponent) in enumerate(factors):
            item = self.items[base]
            if coefficient < 0 and exponent == 1 and item[0] == "sum" and self.made[base] and any(c < 0 for c, _ in item[1]):
                coefficient = -coefficient
                factors[i] = (self.total([(m, -c) for c, m in item[1]], True), 1)
        return coefficient, factors

    def _distributed(self, coefficient: Rational, factors: list[Part]) -> int | None:
        """A product with a sum that a rule made, multiplied out where that is no longer."""
        whole_ = self.monomial(coefficient, tuple(factors), True)
        if self._made_sum(whole_) is None:
            return None
        spread = self.total([(m, c) for c, m in self._spread(whole_)], True)
        return spread if self.sizes[spread] <= self.sizes[whole_] else None

    def _inside(self, coefficient: Rational, factors: list[Part]) -> int | None:
        """What is finite anyway may be multiplied inside a choice between something and 0."""
        choices = [f for f in factors if f[1] == 1 and self.zero in (self.called(f[0], "where") or ())[1:]]
        if len(choices) != 1 or (len(factors) == 1 and coefficient == 1):
            return None
        rest = [f for f in factors if f is not choices[0]]
        if len(rest) > _SHORT or not all(self.tame[b] and isinstance(e, int) and e > 0 for b, e in rest):
            return None
        condition, *sides = self.called(choices[0][0], "where") or ()
        return self.choice(condition, *(self.product([*rest, (side, 1)], coefficient, True) for side in sides))

    def _weight(self, factors: list[Part]) -> list[Part]:
        """`exp(a - m)/(exp(a - m) + exp(b - m))` is `exp(a - logsumexp(a, b))`."""
        for below in [f[0] for f in factors if f[1] == -1 and self.items[f[0]][0] == "sum"]:
            powers = [self.called(m, "exp") for c, m in self.items[below][1] if c == 1]
            shifts = [s for s in self._shifts(powers[0]) if all(s in self._shifts(p) for p in powers)] if powers[0:] else []
            above = next((f[0] for f in factors if f[1] == 1 and shifts and shifts[0] in self._shifts(self.called(f[0], "exp"))), -1)
            if above < 0 or len(powers) < len(self.items[below][1]):
                continue
            m, c = shifts[0]
            plain = [self.total([(p[0], 1), (m, -c)]) for p in [*powers, self.called(above, "exp")] if p]
            inner = self.total([(plain[-1], 1), (self.apply("logsumexp", *plain[:-1]), -1)])
            return [(self.apply("exp", inner), 1), *(f for f in factors if f[0] not in (below, above))]
        return factors

    def _shifts(self, power: tuple[int, ...] | None) -> list[Part]:
        """The choices among the terms of an exponent that keep it in range."""
        item = self.items[power[0]] if power else ("",)
        return [(m, c) for c, m in item[1] if self.called(m, "where")] if item[0] == "sum" else []

    def _apart(self, node: int, exponent: Rational, put: Any) -> Rational:
        """Hand the factors of one part to `put`; what comes back belongs to the coefficient."""
        item = self.items[node]
        if item[0] != "product":
            put(node, exponent)
            return 1
        coefficient, factors = item[1], item[2]
        raised = power(coefficient, exponent)
        if raised is not None and isinstance(exponent, int) and len(factors) <= _SHORT:
            for base, inner in factors:
                put(base, whole(inner * exponent))
            return raised
        if coefficient == 1 and len(factors) == 1 and not isinstance(factors[0][1], int):
            put(factors[0][0], whole(factors[0][1] * exponent))
            return 1
        put(node, exponent)
        return 1

    def monomial(self, coefficient: Rational, factors: Factors, made: bool) -> int:
        if not factors:
            return self.number(coefficient)
        if len(factors) == 1 and factors[0][1] == 1:
            base = factors[0][0]
            if coefficient == 1:
                return base
            item = self.items[base]
            if coefficient == -1 and item[0] == "sum" and any(c < 0 for c, _ in item[1]):
                return self.total([(m, -c) for c, m in item[1]], made)
        key = ("product", coefficient, frozenset(factors))
        bases = [b for b, _ in factors]
        tame = all(self.tame[b] and isinstance(e, int) and e > 0 for b, e in factors)
        return self._new(key, ("product", coefficient, factors), int(any(self.columns[b] for b in bases)),
                         int(all(self.fixed[b] for b in bases)), int(tame), made)  # fmt: skip

    def _rank(self, factor: Part) -> tuple[int, int]:
        """Constants, then names and their powers, then the rest, each in the order of birth."""
        base = factor[0]
        item = self.items[base]
        if self.fixed[base]:
            return (3 if item[0] == "call" else 0), base
        return (1 if item[0] in ("leaf", "name") else 4 if item[0] == "call" and item[1] == "where" else 2), base

    def _raised(self, factors: list[Part]) -> list[Part]:
        """`x*x^p` is `x^(p + 1)`."""
        for i, (base, exponent) in enumerate(factors):
            arguments = self.called(base, "pow")
            if arguments and exponent == 1:
                at = next((k for k, (b, e) in enumerate(factors) if b == arguments[0] and isinstance(e, int)), None)
                if at is not None:
                    sum_ = self.total([(arguments[1], 1), (self.one, factors[at][1])], True)
                    if self.value(sum_) is None:
                        factors[i] = (self.apply("pow", arguments[0], sum_), 1)
                        del factors[at]
                        break
        return factors

    def _mean(self, factors: list[Part]) -> list[Part]:
        """A sum over the rows by their number is the mean."""
        rows = next((f for f in factors if f[1] == -1 and self.called(f[0], "rows")), None)
        total = next((f for f in factors if f[1] == 1 and self.called(f[0], "gather")), None)
        if rows is None or total is None:
            return factors
        arguments = self.called(total[0], "gather")
        assert arguments is not None
        mean = (self.apply("mean", *arguments, column=False), 1)
        return [mean if f is total else f for f in factors if f is not rows]

    def _conjugates(self, factors: list[Part]) -> list[Part]:
        """`(1 - x)*(1 + x)` is `1 - x^2`."""
        sums = [f for f in factors if self.items[f[0]][0] == "sum" and len(self.items[f[0]][1]) == 2]
        for i, (a, exponent) in enumerate(sums):
            for b, other in sums[i + 1 :]:
                left, right = dict((m, c) for c, m in self.items[a][1]), dict((m, c) for c, m in self.items[b][1])
                if exponent != other or left.keys() != right.keys() or self.one not in left:
                    continue
                same = [m for m in left if left[m] == right[m]]
                opposite = [m for m in left if left[m] == -right[m]]
                if len(same) == 1 and len(opposite) == 1:
                    squares = [(self.product([(m, 2)]), sign * left[m] ** 2) for m, sign in ((same[0], 1), (opposite[0], -1))]
                    rest = [f for f in factors if f[0] not in (a, b)]
                    return [(self.total(squares, True), exponent), *rest]
        return factors

    def positive(self, node: int) -> bool:
        """Whether an item is plainly above 0 for all real numbers: `x^2 + 1`."""
        item = self.items[node]
        match item:
            case ("product", coefficient, factors):
                return bool(coefficient > 0) and all(self.positive(b) for b, e in factors)
            case ("sum", terms):
                return any(m == self.one for _, m in terms) and all(c > 0 and self._not_negative(m) for c, m in terms)
            case ("call", "exp" | "cosh", _):
                return True
        return False

    def _not_negative(self, node: int) -> bool:
        coefficient, factors = self.split(node)
        return coefficient >= 0 and all(e % 2 == 0 or self.called(b, "abs") or self.called(b, "exp") for b, e in factors)

    # ---- sums --------------------------------------------------------------------------------------------------------

    def total(self, parts: Iterable[Part], made: bool = False) -> int:
        """The sum of items times their coefficients."""
        sums: dict[Hashable, list[Any]] = {}

        def put(coefficient: Rational, monic: int) -> None:
            key = monic if self.bold else (monic, coefficient > 0)
            if key in sums:
                sums[key][0] = bounded(sums[key][0] + coefficient)
            else:
                sums[key] = [coefficient, monic]

        for node, coefficient in parts:
            item = self.items[node]
            if item[0] == "sum" and len(item[1]) <= _SHORT:
                for c, monic in item[1]:
                    put(bounded(c * coefficient), monic)
            else:
                c, factors = self.split(node)
                monic = node if c == 1 else self.monomial(1, factors, bool(self.made[node]))
                put(bounded(c * coefficient), monic)
        terms = [(c, m) for c, m in sums.values() if c != 0]
        if made and terms:
            terms = self._read_well(self._united(terms) if self.bold else terms)
        if not terms:
            return self.zero
        if len(terms) == 1:
            c, m = terms[0]
            return self.product([(m, 1)], c, bool(self.made[m]))
        plain = self._sum(terms, made)
        if not made or not self.bold or not (products := [m for _, m in terms if self._made_sum(m)]):
            return plain
        spread = [(n, c * k) for c, m in terms for k, n in (self._spread(m) if m in products else [(1, m)])]
        other = self.total(spread, made) if len(spread) <= _SHORT else plain
        return other if self.sizes[other] < self.sizes[plain] else plain

    def _made_sum(self, monic: int) -> Part | None:
        """The one short sum of a rule's among the factors of a product."""
        found = [f for f in self.split(monic)[1] if f[1] == 1 and self.items[f[0]][0] == "sum" and self.made[f[0]]]
        short = len(found) == 1 and len(self.items[found[0][0]][1]) <= _FEW
        return found[0] if short and self.items[monic][0] == "product" else None

    def _spread(self, monic: int) -> list[tuple[Rational, int]]:
        """A product with a sum, multiplied out."""
        inner = self._made_sum(monic)
        assert inner is not None
        coefficient, factors = self.split(monic)
        rest = [f for f in factors if f is not inner]
        return [(coefficient * c, self.product([*rest, (m, 1)], 1, True)) for c, m in self.items[inner[0]][1]]

    def _sum(self, terms: list[tuple[Rational, int]], made: bool) -> int:
        monics = [m for _, m in terms]
        return self._new(("sum", frozenset(terms)), ("sum", tuple(terms)), int(any(self.columns[m] for m in monics)),
                         int(all(self.fixed[m] for m in monics)), int(all(self.tame[m] for m in monics)), made)  # fmt: skip

    def _read_well(self, terms: list[tuple[Rational, int]]) -> list[tuple[Rational, int]]:
        """Plain numbers last, a positive term first."""
        terms = sorted(terms, key=lambda term: term[1] == self.one)
        first = next((i for i, (c, _) in enumerate(terms) if c > 0), 0)
        return [terms[first], *terms[:first], *terms[first + 1 :]]

    def _united(self, terms: list[tuple[Rational, int]]) -> list[tuple[Rational, int]]:
        """Terms under one condition, or under it and its contrary, are one choice."""
        choices: dict[int, tuple[list[Part], list[Part]]] = {}
        places: dict[int, int] = {}
        rest: list[tuple[Rational, int]] = []
        conditions = {w[0] for _, m in terms if (w := self.called(m, "where"))}
        for c, m in terms:
            arguments = self.called(m, "where")
            if not arguments or self.zero not in arguments[1:]:
                rest.append((c, m))
                continue
            condition, a, b = arguments
            unequal = self.called(condition, "ne")
            equal = self._found.get(("eq", unequal), -1) if unequal else -1
            if equal in conditions:
                condition, a, b = equal, b, a
            sides = choices.setdefault(condition, ([], []))
            if condition not in places:
                places[condition] = len(rest)
                rest.append((1, -1))
            sides[a == self.zero].append((b if a == self.zero else a, c))
        for condition, at in places.items():
            yes, no = choices[condition]
            rest[at] = (1, self.choice(condition, self.total(yes, True), self.total(no, True)))
        return rest

    def _masked_by(self, node: int, conditions: set[int]) -> bool:
        """Whether every term of a sum is 0 where none of the conditions holds."""
        item = self.items[node]
        terms = [m for _, m in item[1]] if item[0] == "sum" else [node]
        choices = [self.called(m, "where") for m in terms]
        return all(c and c[2] == self.zero and c[0] in conditions for c in choices)

    def alternatives(self, condition: int) -> set[int]:
        """The conditions that are joined by `or`, and all that such a joint is made of."""
        found, stack = {condition}, [condition]
        while stack:
            inner = self.called(stack.pop(), "or") or ()
            stack += [i for i in inner if i not in found]
            found.update(inner)
        return found

    def choice(self, condition: int, a: int, b: int) -> int:
        """`where`; what is nested under the same condition is decided already."""
        inner, other = self.called(a, "where"), self.called(b, "where")
        a = inner[1] if inner and inner[0] == condition else a
        b = other[2] if other and other[0] == condition else b
        if b == self.zero and self.bold and self.called(condition, "or"):
            if self._masked_by(a, self.alternatives(condition)):
                return a
        return a if a == b else self.apply("where", condition, a, b)


def whole(value: Rational) -> Rational:
    return value.numerator if value.denominator == 1 else value


def bounded(value: Rational) -> Rational:
    """The number itself while it is short, else the nearest float; whole numbers are plain integers."""
    if value.numerator.bit_length() + value.denominator.bit_length() > _BITS:
        near = float(value)
        if near == 0 or near in (float("inf"), float("-inf")):
            raise OverflowError("a coefficient out of range")
        value = Fraction(repr(near))
        if value.numerator.bit_length() + value.denominator.bit_length() > 2 * _BITS:
            raise OverflowError("a coefficient out of range")
    return whole(value)


def power(base: Rational, exponent: Rational) -> Rational | None:
    """A number to a power, where that is a short number."""
    if base == 1:
        return 1
    if not isinstance(exponent, int) or (base == 0 and exponent <= 0):
        return None
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(exponent) > _BITS:
        return None
    return whole(Fraction(base) ** exponent)


def decimal(text: str) -> Rational | None:
    """The exact number of a decimal text, where it is a short one."""
    body, _, exponent = text.lower().replace("_", "").partition("e")
    if len(body) > 40 or len(exponent) > 3 or not body.lstrip("+-").replace(".", "", 1).isdigit():
        return None
    if exponent and abs(int(exponent)) > 40:
        return None
    return whole(Fraction(text.replace("_", "")))


def spelled(value: Rational) -> str | None:
    """A number as a decimal, as short as it reads back; None where it has none: 1/3."""
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1:
        return None
    text = repr(float(value)).removesuffix(".0").replace("e+", "e")
    if value.denominator == 1 and abs(value) < 10**16:
        short = f"{float(value):e}".replace("e+0", "e").replace("e+", "e")
        mantissa, _, exponent = short.partition("e")
        short = f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"
        digits = str(value.numerator)
        return short if len(digits) > 2 * len(short) and Fraction(short) == value else digits
    if Fraction(text) != value and value.denominator != 1:
        longer = f"{float(value):.17g}"
        text = longer if Fraction(longer) == value else text
    return text


