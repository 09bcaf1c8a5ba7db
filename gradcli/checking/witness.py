"""The second opinion: sympy's derivative of each row's exact counterpart, joined by the chain rule in exact numbers.

Rows are differentiated one at a time, inner values opaque, so nothing swells, and nothing of a user's text ever reaches
sympy. Where sympy has no opinion (an unevaluated derivative, a pulse) a difference quotient at more than twice the
digits takes its place. None of the rules of `gradcli.primitives` is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import Any, TypeAlias

from gradcli.calculus.exact import Numbers, Symbols, numbers
from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN, TABLE

Evaluator: TypeAlias = Callable[[Any, Sequence[Any]], Any]

# What the witness graph must not contain: reductions that are made of others are expanded before.
EXPANDED = frozenset(("var", "std", "norm", "softmax", "logsumexp_rows"))

_FLAT = BOOLEAN | {"floor", "ceil", "round", "trunc", "sign", "step", "floordiv", "rows", "detach", "_number"}
_METHODS = {"Abs": "abs", "Max": "max", "Min": "min", "loggamma": "lgamma", "sign": "sign", "floor": "floor"}
_SAME = frozenset((
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "exp", "log", "erf", "erfc", "erfinv", "gamma", "polygamma", "zeta", "sinpi", "cospi",
    "besselj", "bessely", "besseli", "besselk",
))  # fmt: skip


_FEW = 24  # bits that may cancel in a sum; the working precision has more to spare
_FURTHEST = 20_000  # bits beyond which a sum in which all of them cancel is given up
_SLOW, _NOT_SO_FAR = frozenset(("gamma", "loggamma", "polygamma", "zeta")), 2_000  # 5,000 bits take seconds a number


class NoOpinion(Exception):
    """Sympy left something unevaluated."""


@cache
def partial(op: str, index: int, count: int) -> Evaluator | None:
    """The partial of a row by one argument over `Numbers`, from sympy; None where it has no opinion."""
    if op in _FLAT:
        return lambda m, values: m.num(0)
    try:
        symbols = Symbols()
        arguments = [symbols.symbol(f"x{i}") for i in range(count)]
        slope = TABLE[op].exact(symbols, *arguments).diff(arguments[index])
        return _compiled(_accurate(symbols.sympy, slope), {s: i for i, s in enumerate(arguments)})
    except (NoOpinion, AttributeError, TypeError, ValueError, NotImplementedError):
        return None


def _accurate(sympy: Any, slope: Any) -> Any:
    """The same slope where it would be 0/0 at base 0 (x^p/x), or have no digit left in the tails (1 - tanh(x)^2)."""
    if any(not p.exp.is_number for p in slope.atoms(sympy.Pow)):
        slope = sympy.powsimp(slope, combine="exp")
    return slope.replace(
        lambda e: e.is_Pow and e.exp == 2 and isinstance(e.base, sympy.tanh),
        lambda e: 1 - 1 / sympy.cosh(e.base.args[0]) ** 2,
    )


def _compiled(expression: Any, places: dict[Any, int]) -> Evaluator:
    """A sympy expression of a row (never of a user) as a closure over `Numbers`."""
    if expression in places:
        place = places[expression]
        return lambda m, values: values[place]
    name = expression.func.__name__
    if expression.is_Rational:
        number = Fraction(int(expression.p), int(expression.q))
        whole = int(number) if number.denominator == 1 else number
        return lambda m, values: m.num(whole)
    if name in ("Pi", "Exp1"):
        return (lambda m, values: m.pi) if name == "Pi" else (lambda m, values: m.exp(m.num(1)))
    if name == "Piecewise":
        return _piecewise(expression, places)
    parts = [_compiled(a, places) for a in expression.args]
    if name == "Add":
        slow = any(type(function).__name__ in _SLOW for function in expression.atoms(_function()))
        return lambda m, values: _sum(m, values, parts, _NOT_SO_FAR if slow else _FURTHEST)
    if name == "Mul":
        return lambda m, values: m.prod([p(m, values) for p in parts])
    if name == "Pow":
        return lambda m, values: m.power(parts[0](m, values), parts[1](m, values))
    if name in ("sin", "cos") and expression.args[0].has(_pi()):
        turns = _compiled(expression.args[0] / _pi(), places)
        return lambda m, values: getattr(m, f"{name}pi")(turns(m, values))
    if name == "Heaviside":
        return lambda m, values: (m.sign(parts[0](m, values)) + m.num(1)) / m.num(2)
    if name in _SAME or name in _METHODS:
        method = _METHODS.get(name, name)
        if method == "abs":
            return lambda m, values: abs(parts[0](m, values))
        return lambda m, values: getattr(m, method)(*[p(m, values) for p in parts])
    if name in _COMPARISONS:
        return lambda m, values: m.test(_COMPARISONS[name](*[p(m, values) for p in parts]))
    raise NoOpinion(name)


def _pi() -> Any:
    import sympy

    return sympy.pi


def _function() -> Any:
    import sympy

    return sympy.Function


def _sum(m: Numbers, values: Sequence[Any], parts: Sequence[Evaluator], furthest: int) -> Any:
    """A sum with as many more digits as cancel in it; nan where that would be too many."""
    extra = 0
    while extra <= furthest:
        with m.context.extraprec(extra):
            terms = [p(m, values) for p in parts]
            total = m.sum(terms)
        if not m.lost(terms, total) > extra + _FEW:
            return m.real(+total.value)
        extra = 4 * extra + m.context.prec
    return m.nan


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "StrictLessThan": lambda a, b: a < b,
    "LessThan": lambda a, b: a <= b,
    "StrictGreaterThan": lambda a, b: a > b,
    "GreaterThan": lambda a, b: a >= b,
}


def _piecewise(expression: Any, places: dict[Any, int]) -> Evaluator:
    branches = []
    for value, condition in expression.args:
        test = None if condition == True else _compiled(condition, places)  # noqa: E712  sympy's own true
        branches.append((_compiled(value, places), test))

    def choose(m: Any, values: Sequence[Any]) -> Any:
        for value, test in branches:
            if test is None or m.raw(test(m, values)):
                return value(m, values)
        return m.nan

    return choose


def quotient(op: str, index: int, values: Sequence[Any], digits: int) -> Any:
    """A central difference of one row at more than twice the digits: good to `digits`."""
    m = numbers(2 * digits + 30)
    point = [m.num(v.value) for v in values]
    scale = abs(point[index]) if m.raw(point[index]) else m.num(1)
    step = scale * m.num(Fraction(1, 10 ** (digits // 2 + 10)))
    high, low = list(point), list(point)
    high[index], low[index] = point[index] + step, point[index] - step
    exact = TABLE[op].exact
    return (exact(m, *high) - exact(m, *low)) / (step + step)


class Sweep:
    """Reverse accumulation in exact numbers over a specialised graph, with the witness's partials.

    `adjoint` and, where it is `sized`, `size` are by node: the slope, and the sum of the absolute values of the terms
    that it was added up from. A column has a list with one entry a row; so has everything when the output is a column
    (per row).
    """

    def __init__(
        self, graph: Graph, output: int, values: Sequence[Any], m: Numbers, digits: int, sized: bool = True
    ) -> None:
        self.graph, self.values, self.m, self.digits, self.sized = graph, values, m, digits, sized
        self.zero, self.one = m.num(0), m.num(1)
        self.per_row = bool(graph.columns[output])
        self.rows = max((len(v) for v in values if isinstance(v, list)), default=1)
        self.adjoint: dict[int, list[Any]] = {}
        self.size: dict[int, list[Any]] = {}
        self.adjoint[output] = [self.one] * (self.rows if self.per_row else 1)
        self.size[output] = list(self.adjoint[output])
        for node in range(output, -1, -1):
            if node in self.adjoint:
                self._pull(node)

    def _pull(self, node: int) -> None:
        graph, op = self.graph, self.graph.ops[node]
        arguments = list(graph.arguments(node))
        if op in ("leaf", "constant", "rows", "detach"):
            return
        if op in ("name", "_taint", "spread") or op == "gather":
            self._pass(node, arguments[0], lambda row: None)
        elif op in ("min_rows", "max_rows", "prod_rows"):
            self._pass(node, arguments[0], self._over_rows(op, node, arguments[0]))
        elif op == "_others":
            self._pass_to_others(node, arguments[0])
        elif op == "where":
            for place in (1, 2):
                self._pass(node, arguments[place], self._selected(arguments[0], place == 1))
        else:
            for index, argument in enumerate(arguments):
                if self.graph.number(argument) is None:
                    self._pass(node, argument, self._partial(op, index, arguments))

    def at(self, node: int, row: int) -> Any:
        value = self.values[node]
        return value[row] if isinstance(value, list) else value

    def _selected(self, condition: int, when: bool) -> Callable[[int], Any]:
        zero, one = self.m.num(0), None
        return lambda row: one if bool(self.m.raw(self.at(condition, row))) == when else zero

    def _partial(self, op: str, index: int, arguments: list[int]) -> Callable[[int], Any]:
        evaluator = partial(op, index, len(arguments))

        def slope(row: int) -> Any:
            values = [self.at(a, row) for a in arguments]
            found = evaluator(self.m, values) if evaluator else None
            if found is None or found.value != found.value:
                found = self.m.num(quotient(op, index, values, self.digits).value)
            return found

        return slope

    def _over_rows(self, op: str, node: int, argument: int) -> Callable[[int], Any]:
        values, m = self.values[argument], self.m
        if op == "prod_rows":
            return lambda row: m.prod([v for i, v in enumerate(values) if i != row])
        best = self.values[node]
        ties = sum(v.value == best.value for v in values)
        share = m.num(Fraction(1, ties or 1))
        return lambda row: share if values[row].value == best.value else m.num(0)

    def _pass(self, node: int, argument: int, slope: Callable[[int], Any]) -> None:
        """Add this node's adjoint times a slope (None: 1) to an argument's; sum over rows where a scalar was spread."""
        wide = self.per_row or bool(self.graph.columns[argument])
        mine = self.adjoint[node]
        total = self.adjoint.setdefault(argument, [self.zero] * (self.rows if wide else 1))
        steps: list[Any] = []
        for row in range(max(len(mine), len(total))):
            bar = mine[row] if len(mine) > 1 else mine[0]
            step = slope(row) if bar.value else self.zero
            steps.append(step)
            if step is None or step.value:
                place = row if len(total) > 1 else 0
                total[place] = total[place] + (bar if step is None else bar * step)
        if self.sized:
            self._grow(node, argument, steps)

    def _pass_to_others(self, node: int, argument: int) -> None:
        """For each row the adjoints of the others, each times the product of all rows but these two."""
        values, mine = self.values[argument], self.adjoint[node]
        total = self.adjoint.setdefault(argument, [self.zero] * len(values))
        size = self.size.setdefault(argument, [self.zero] * len(values))
        for row, other in permutations(range(len(values)), 2):
            if mine[other].value:
                step = self.m.prod([v for i, v in enumerate(values) if i not in (row, other)])
                total[row] = total[row] + mine[other] * step
                if self.sized:
                    size[row] = size[row] + self.size[node][other] * abs(step)

    def _grow(self, node: int, argument: int, steps: Sequence[Any]) -> None:
        """The sizes of the terms that `_pass` adds."""
        mine = self.size[node]
        total = self.size.setdefault(argument, [self.zero] * len(self.adjoint[argument]))
        for row, step in enumerate(steps):
            size = mine[row] if len(mine) > 1 else mine[0]
            place = row if len(total) > 1 else 0
            total[place] = total[place] + (size if step is None else size * abs(step))
