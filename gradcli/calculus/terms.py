"""Sums and products with exact coefficients, interned: the algebra behind `tidy`, which is for printing only.

An item is a number, a leaf, a name, a call, a product `coefficient * base^exponent * ...` or a sum of products. Equal
items are one item, whatever the order they were written in; the first order seen is the one that is printed.

Two levels of boldness. The safe one merges only what is the same number everywhere, special points included. The bold
one takes `x*x^-1` for 1, `x^(1/2)` squared for x, `c - c` for 0 and `(1 - x)*(1 + x)` for `1 - x^2`: what a person
expects, and what `gradcli.derivation` compares with the engine before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeAlias

from gradcli.calculus import patterns
from gradcli.calculus.rationals import Rational, bounded, power, whole

Factors: TypeAlias = "tuple[tuple[int, Rational], ...]"
Part: TypeAlias = "tuple[int, Rational]"  # an item, and its exponent in a product or its coefficient in a sum

_LARGE = 1 << 30
_FINITE = (
    "sin cos tanh sech atan asinh erf erfc exp sinh cosh sigmoid softplus normcdf normpdf sign floor ceil "
    "round trunc abs min max gather mean rows where"
)
_TAME = frozenset(_FINITE.split())  # finite wherever their arguments are


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
        self.depth = 0  # of products that are being multiplied out
        self.found: dict[Hashable, int] = {}
        self.zero, self.one = self.number(0), self.number(1)

    # ---- leaves of the algebra ---------------------------------------------------------------------------------------

    def _new(self, key: Hashable, item: tuple[Any, ...], column: int, fixed: int, tame: int, made: bool = True) -> int:
        found = self.found.get(key)
        if found is None:
            found = self.found[key] = len(self.items)
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
        return min(int(size), _LARGE)

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
            base, exponent = patterns.without_root(self, base, exponent) if self.bold else (base, exponent)
            key = base if self.bold else (base, exponent > 0)
            if key in powers:
                powers[key][1] = whole(powers[key][1] + exponent)
            else:
                powers[key] = [base, exponent]

        for node, exponent in parts:
            factor = self._apart(node, exponent, put)
            if factor != 1:
                try:
                    coefficient = bounded(coefficient * factor)
                except OverflowError:  # stays a factor of its own
                    put(self.number(factor), 1)
        if coefficient == 0:
            return self.zero
        for base, exponent in list(powers.values()) if self.bold else ():
            if (base, exponent) != (other := patterns.without_root(self, base, exponent)):
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
        return self._composed(coefficient, factors, made)

    def _composed(self, coefficient: Rational, factors: list[Part], made: bool) -> int:
        """The product as a person would write it."""
        if self.bold and len(factors) > 1:
            factors = patterns.mean(self, patterns.raised(self, factors))
        if made and self.bold and len(factors) > 1:
            factors = patterns.weight(self, patterns.logistic(self, patterns.conjugates(self, factors)))
        if len({b for b, _ in factors}) < len(factors) and self.bold:
            return self.product(factors, coefficient, made)
        if made:
            factors.sort(key=self._rank)
        if made and self.bold:
            coefficient, factors = patterns.signed(self, coefficient, factors)
            inside = patterns.inside(self, coefficient, factors)
            inside = patterns.distributed(self, coefficient, factors) if inside is None else inside
            if inside is not None:
                return inside
        return self.monomial(coefficient, tuple(factors), made)

    def _apart(self, node: int, exponent: Rational, put: Any) -> Rational:
        """Hand the factors of one part to `put`; what comes back belongs to the coefficient."""
        item = self.items[node]
        if item[0] != "product":
            put(node, exponent)
            return 1
        coefficient, factors = item[1], item[2]
        raised = power(coefficient, exponent)
        if raised is not None and isinstance(exponent, int) and len(factors) <= patterns.SHORT:
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
            short = item[0] == "sum" and len(item[1]) <= patterns.SHORT
            if coefficient == -1 and short and any(c < 0 for c, _ in item[1]):
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
            if item[0] == "sum" and len(item[1]) <= patterns.SHORT:
                for c, monic in item[1]:
                    put(bounded(c * coefficient), monic)
            else:
                c, factors = self.split(node)
                monic = node if c == 1 else self.monomial(1, factors, bool(self.made[node]))
                put(bounded(c * coefficient), monic)
        terms = [(c, m) for c, m in sums.values() if c != 0]
        if made and terms:
            terms = self._read_well(patterns.united(self, terms) if self.bold else terms)
        if not terms:
            return self.zero
        if len(terms) == 1:
            c, m = terms[0]
            return self.product([(m, 1)], c, bool(self.made[m]))
        plain = self._sum(terms, made)
        if not made or not self.bold or not (products := [m for _, m in terms if patterns.made_sum(self, m)]):
            return plain
        self.depth += 1
        spread = [
            (n, c * k) for c, m in terms for k, n in (patterns.multiplied_out(self, m) if m in products else [(1, m)])
        ]
        other = self.total(spread, made) if len(spread) <= patterns.SHORT else plain
        self.depth -= 1
        return other if self.sizes[other] < self.sizes[plain] else plain

    def _sum(self, terms: list[tuple[Rational, int]], made: bool) -> int:
        monics = [m for _, m in terms]
        column = int(any(self.columns[m] for m in monics))
        fixed, tame = (int(all(flags[m] for m in monics)) for flags in (self.fixed, self.tame))
        return self._new(("sum", frozenset(terms)), ("sum", tuple(terms)), column, fixed, tame, made)

    def _read_well(self, terms: list[tuple[Rational, int]]) -> list[tuple[Rational, int]]:
        """Plain numbers last, a positive term first."""
        terms = sorted(terms, key=lambda term: term[1] == self.one)
        first = next((i for i, (c, _) in enumerate(terms) if c > 0), 0)
        return [terms[first], *terms[:first], *terms[first + 1 :]]

    def choice(self, condition: int, a: int, b: int) -> int:
        """`where`; what is nested under the same condition is decided already."""
        inner, other = self.called(a, "where"), self.called(b, "where")
        a = inner[1] if inner and inner[0] == condition else a
        b = other[2] if other and other[0] == condition else b
        if b == self.zero and self.bold and patterns.masked_by(self, a, condition):
            return a
        return a if a == b else self.apply("where", condition, a, b)
