"""Value and gradients to any number of digits, on the decimals as written: every printed digit is right.

The graph of value and adjoints is the engine's; it is evaluated by mpmath at a rising precision until two answers agree
in all the digits that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradcli.calculus.adjoint import MixedRows, adjoints
from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import specialise
from gradcli.compiled import mixed_rows
from gradcli.graph import Graph
from gradcli.results import Number, Result

if TYPE_CHECKING:
    from gradcli.compiled import Program
    from gradcli.language.lower import Resolved

_GUARD = 15  # digits beyond those asked for, at first
_ROUNDS = 6  # how often the precision is doubled before a digit is given up


def exact_result(program: Program, result: Result, values: Mapping[str, Number], digits: int) -> Result:
    """The same result with decimal texts of that many digits for numbers (a list of texts for a column)."""
    texts = exact_numbers(program, values, digits)
    gradients = {n: texts.get(f"{n}.grad") for n in result.gradients}
    retained = {n: texts.get(f"{n}.grad") for n in result.retained}
    shown = {n: texts[n] for n in result.values}
    return replace(result, value=texts[program.output], gradients=gradients, retained=retained, values=shown)


def exact_numbers(program: Program, values: Mapping[str, Number], digits: int) -> dict[str, Any]:
    """The value (under the output's name), gradients (`x.grad`) and shown names as decimal texts."""
    resolved = program.model.resolved
    names = resolved.names
    columns = {label for label, value in values.items() if not isinstance(value, float)}
    asked = [n for n in dict.fromkeys((*program.wanted, *program.retained)) if n in program.filled]
    shown = list(dict.fromkeys((program.output, *program.show)))
    graph, at = specialise(resolved.graph, columns, [names[n].node for n in (*shown, *asked)])
    output = at[names[program.output].node]
    try:
        found = adjoints(graph, output, [at[names[n].node] for n in asked])
    except MixedRows as fault:
        raise mixed_rows(program.model, fault) from None
    zero = graph.constant(0.0)
    roots = {n: at[names[n].node] for n in shown}
    roots |= {f"{n}.grad": found.get(at[names[n].node], zero) for n in asked}
    texts = _standing(graph, list(roots.values()), _Written(resolved, values), digits)
    answers: dict[str, Any] = dict(zip(roots, texts, strict=True))
    for n in asked:
        answers[f"{n}.grad"] = _tainted(answers[f"{n}.grad"], answers[program.output])
    return answers


def _tainted(gradient: str | list[str], value: str | list[str]) -> str | list[str]:
    """Where the value is nan, the gradient is."""
    if isinstance(value, str):
        return gradient if value != "nan" else "nan" if isinstance(gradient, str) else ["nan"] * len(gradient)
    rows = gradient if isinstance(gradient, list) else [gradient] * len(value)
    return [v if v == "nan" else g for g, v in zip(rows, value, strict=True)]


class _Written:
    """The leaves as the text and the command line have them: their decimals, or what constant expressions such as 2*pi
    come to, in as many digits as are asked for; those of lists too."""

    def __init__(self, resolved: Resolved, labels: Collection[str]) -> None:
        self.text = text = resolved.graph
        self.lists = {text.labels[node]: items for node, items in text.lists.items()}
        self.items = self._computed(i for items in self.lists.values() for i in items)
        self.leaves = {n.label: n.default for n in resolved.names.inputs() if n.default is not None}
        self.leaves = {label: node for label, node in self.leaves.items() if label in labels}
        self.defaults = self._computed(self.leaves.values())

    def _computed(self, nodes: Iterable[int]) -> tuple[Graph, list[int], list[int]]:
        """Those nodes of the text that are no plain number, and a graph with the place of each."""
        odd = [n for n in nodes if n not in self.text.numbers]
        graph, at = specialise(self.text, (), odd)
        return graph, odd, [at[n] for n in odd]

    def at(self, digits: int) -> dict[str, Any]:
        items = self._numbers(self.items, {}, digits)
        lists = {label: [items(n) for n in nodes] for label, nodes in self.lists.items()}
        defaults = self._numbers(self.defaults, lists, digits)
        return {**lists, **{label: defaults(node) for label, node in self.leaves.items()}}

    def _numbers(
        self, computed: tuple[Graph, list[int], list[int]], lists: Mapping[str, Any], digits: int
    ) -> Callable[[int], Any]:
        graph, odd, placed = computed
        known = dict(zip(odd, evaluate(graph, placed, lists, digits), strict=True))
        return lambda node: known[node] if node in known else self.text.numbers[node][1]


def _standing(graph: Graph, nodes: list[int], written: _Written, digits: int) -> list[str | list[str]]:
    """The texts of all nodes, at a precision that no longer changes them. What only gets smaller the more digits are
    taken, such as sin(2*pi), is 0 as far as anyone can tell."""
    working = digits + _GUARD
    before: list[str | list[str]] | None = None
    for _ in range(_ROUNDS):
        numbers = evaluate(graph, nodes, written.at(working + 10), working)
        texts = [_spelled(v, digits, 0) for v in numbers]
        if texts == before:
            return texts
        before, working = texts, 2 * working
    return [_spelled(v, digits, working // 4) for v in numbers]


def _spelled(value: Any, digits: int, floor: int) -> str | list[str]:
    if isinstance(value, list):
        return [_text(v, digits, floor) for v in value]
    return _text(value, digits, floor)


def _text(value: Any, digits: int, floor: int) -> str:
    from mpmath import mpf, nstr

    if value != value or abs(value) == float("inf"):
        return repr(float(value))
    if floor and abs(value) < mpf(10) ** -floor:
        return "0.0"
    return str(nstr(value, digits, strip_zeros=False, min_fixed=-5, max_fixed=max(digits, 5)))
