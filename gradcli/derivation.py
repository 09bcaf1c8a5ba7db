"""Derivatives as formulas: the adjoint graph of a model, tidied for people, compared with the engine, printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb
from typing import TYPE_CHECKING, Any, TypeAlias

from gradcli.api import mixed_rows, no_gradient
from gradcli.calculus import adjoint, reading
from gradcli.calculus.adjoint import MixedRows, depends, shaped_as
from gradcli.calculus.specialise import specialise
from gradcli.calculus.tidy import BOLD, PLAIN, SAFE, Tidied, rebuilt, tidy
from gradcli.errors import BindingError
from gradcli.graph import Graph
from gradcli.leaves import requires_grad
from gradcli.primitives import CONSTANTS, TABLE
from gradcli.reports.sheet import Line, Sheet, full_sizes, largest, occurrences, worth_a_name
from gradcli.values import literal_columns

if TYPE_CHECKING:
    from gradcli.api import Model

_INLINE = 60  # operations and leaves of a formula that is written in one piece
_TRY = 20_000  # of one whose size is tried out after tidying
_WORTH = 5  # of what keeps the name it has in the model when it is written more than once
_MANY = 10_000  # derivatives of one output
_MOST = 10**9


_Key: TypeAlias = "tuple[str, tuple[str, ...]]"  # an output, and the names it was differentiated by
Paths: TypeAlias = "Mapping[str, tuple[str, tuple[str, ...]]]"
Sweep: TypeAlias = Callable[[Graph, int, Iterable[int]], dict[int, int]]


@dataclass
class Derivation:
    """The graph of a model's outputs and derivatives, specialised for the shapes of its values.

    `lines` are what was asked for, with nodes of `graph`; `values` the outputs themselves; `places` nodes by name;
    `written` the nodes that the user wrote; `hints` names for nodes that are adjoints of intermediates; `cuts` names
    that a formula keeps; `engine` the same by the engine's own sweep; `stepwise` higher derivatives of simplified ones.
    """

    model: Model
    graph: Graph
    written: list[int]
    places: dict[str, int]
    lists: dict[str, list[float]]
    lines: list[Line] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    hints: dict[int, str] = field(default_factory=dict)
    cuts: set[str] = field(default_factory=set)
    engine: Derivation | None = None
    stepwise: Derivation | None = None

    @cached_property
    def columns(self) -> frozenset[str]:
        graph = self.graph
        return frozenset(
            label for node, label in graph.labels.items() if graph.ops[node] == "leaf" and graph.columns[node]
        )


def derive(model: Model, outputs: Sequence[str], wrt: Sequence[str] | None = None, order: int = 1,
           no_grad: Sequence[str] = ()) -> Derivation:  # fmt: skip
    """The derivatives of the outputs by every choice of `order` of the names (default: each leaf that requires grad).

    Raises GradientError for a name that does not require grad and for a gradient that would mix rows, BindingError
    where there is nothing to differentiate by.
    """
    by = _asked(model, wrt, no_grad) if order else []
    if order > 1 and (count := comb(len(by) + order - 1, order)) > _MANY:
        raise BindingError.of(f"{len(by)} names have {count} derivatives of order {order}",
                              help=f"name those that matter with `--wrt`: at most {_MANY} are printed")  # fmt: skip
    paths = list(combinations_with_replacement(by, order))
    return along(model, {_label(output, path): (output, path) for output in outputs for path in paths}, outputs)


def written_derivatives(model: Model, outputs: Sequence[str]) -> Derivation | None:
    """The formulas of outputs that are written as `d(f, x)`; None where any is something else."""
    paths: dict[str, tuple[str, tuple[str, ...]]] = {}
    functions: dict[str, int] = {}
    for output in outputs:
        function, by = _written(model, output)
        if function < 0:
            return None
        label = model.resolved.graph.labels.get(function, output)
        label = label if label in model.resolved.names else output
        paths[output] = (label, by)
        functions[label] = function
    if all(n in model.resolved.names for _, by in paths.values() for n in by):
        return along(model, paths, list(functions), functions)
    return derive(model, outputs, (), 0)  # by an argument of a function: only its value is known by name


def _written(model: Model, output: str) -> tuple[int, tuple[str, ...]]:
    """The function and the names of an output that is written as `d(f, x)`; -1 for another."""
    graph = model.resolved.graph
    node = model.resolved.names[output].node
    node = graph.arguments(node)[0] if graph.ops[node] == "name" else node
    by: list[str] = []
    while graph.ops[node] == "d":
        node, *names = graph.arguments(node)
        by += [graph.labels[n] for n in names]
    return (node if by else -1), tuple(reversed(by))


def along(model: Model, paths: Paths, outputs: Sequence[str], functions: Mapping[str, int] | None = None) -> Derivation:
    """The derivatives of outputs by given names in turn, each under a label of its own.

    `functions`: nodes of the text for outputs that have no name there.
    """
    nodes = {n: model.resolved.names[n].node for n in outputs if n in model.resolved.names} | dict(functions or {})
    try:
        engine = _specialised(model, nodes, paths)
        _differentiate(engine, paths, adjoint.adjoints)
        found = _specialised(model, nodes, paths)
        _differentiate(found, paths, reading.adjoints)
        found.engine = engine
        if max((len(path) for _, path in paths.values()), default=0) > 1 and _elementwise(found):
            found.stepwise = _by_steps(model, nodes, paths)
    except MixedRows as fault:
        raise mixed_rows(model, fault) from None
    return found


def _specialised(model: Model, outputs: Mapping[str, int], paths: Paths) -> Derivation:
    resolved = model.resolved
    by = list(dict.fromkeys(n for _, path in paths.values() for n in path))
    lists = {label: array.tolist() for label, array in literal_columns(resolved).items()}
    point = model.point
    columns = {n for n in point if not isinstance(point[n], float)} | set(lists)
    graph, at = specialise(resolved.graph, columns, [*outputs.values(), *(resolved.names[n].node for n in by)])
    places = {n.label: at[n.node] for n in resolved.names.values() if at[n.node] >= 0}
    cuts = {n for n in by if resolved.names[n].kind == "intermediate"}
    values = {output: at[node] for output, node in outputs.items()}
    return Derivation(model, graph, list(at), places, lists, values=values, cuts=cuts)


def _elementwise(found: Derivation) -> bool:
    return not found.columns and not any(op in TABLE and TABLE[op].reduction for op in set(found.graph.ops))


def _differentiate(found: Derivation, paths: Paths, sweep: Sweep) -> None:
    """Append the derivatives: each order differentiates the one before it; common beginnings are taken once."""
    nodes: dict[_Key, int] = {(output, ()): node for output, node in found.values.items()}
    for step in range(max((len(path) for _, path in paths.values()), default=0)):
        _step(found, nodes, paths, step, sweep)
    found.lines = [Line(label, nodes[output, path], output, path) for label, (output, path) in paths.items()]


def _step(found: Derivation, nodes: dict[_Key, int], paths: Paths, step: int, sweep: Sweep) -> None:
    """All derivatives of one order more."""
    wanted: dict[_Key, dict[str, None]] = {}
    for output, path in paths.values():
        if len(path) > step:
            wanted.setdefault((output, path[:step]), {})[path[step]] = None
    for (output, done), names in wanted.items():
        nodes |= _gradient(found, output, done, nodes[output, done], list(names), sweep)


def _gradient(found: Derivation, output: str, done: tuple[str, ...], node: int, by: list[str],
              sweep: Sweep) -> dict[_Key, int]:  # fmt: skip
    """One more derivative of a node by each of the names; adjoints of intermediates on the way get names too."""
    graph, places = found.graph, found.places
    here = {n: places[n] for n in by if n in places}
    inner = {} if done else _inner(found, here.values(), node)
    gradient = sweep(graph, node, [*here.values(), *inner.values()])
    for n, place in inner.items():
        if place in gradient:
            found.hints.setdefault(gradient[place], f"d{output}_d{n}")
    result = {}
    for n in by:
        place = here.get(n, node)
        zero = shaped_as(graph, graph.constant(0.0), place if graph.columns[place] else node)
        result[output, (*done, n)] = gradient.get(place, zero) if n in here else zero
    return result


def _inner(found: Derivation, by: Iterable[int], output: int) -> dict[str, int]:
    """Intermediates on the way, whose adjoints get a name if one is needed."""
    marks = depends(found.graph, by, output)
    names = found.model.resolved.names.values()
    places = {n.label: found.places.get(n.label, -1) for n in names if n.kind == "intermediate"}
    return {label: place for label, place in places.items() if 0 <= place < output and marks[place]}


def _by_steps(model: Model, outputs: Mapping[str, int], paths: Paths) -> Derivation | None:
    """Higher derivatives as a person takes them: each from the simplified one before. None where that fails."""
    try:
        return _taken_by_steps(model, outputs, paths)
    except OverflowError:
        return None


def _taken_by_steps(model: Model, outputs: Mapping[str, int], paths: Paths) -> Derivation:
    found = _specialised(model, outputs, paths)
    done: dict[_Key, int] = {(output, ()): node for output, node in found.values.items()}
    longest = max(len(path) for _, path in paths.values())
    for step in range(longest):
        _step(found, done, paths, step, reading.adjoints)
        if step < longest - 1:
            found, done = _restarted(found, done)
    found.lines = [Line(label, done[output, path], output, path) for label, (output, path) in paths.items()]
    return found


def _restarted(found: Derivation, done: dict[_Key, int]) -> tuple[Derivation, dict[_Key, int]]:
    """The derivatives so far, simplified, as a graph that can be differentiated again."""
    old = found.graph
    names = {old.labels[n] for n, op in enumerate(old.ops) if op == "name"}
    tidied = tidy(old, [*done.values()], BOLD, found.written, names)
    graph, at = rebuilt(tidied.graph, tidied.roots)
    places = {label: at[node] for node, label in tidied.graph.labels.items() if at[node] >= 0}
    again = dict(zip(done, (at[r] for r in tidied.roots), strict=True))
    values = {output: again[output, ()] for output in found.values}
    return Derivation(found.model, graph, list(at), places, found.lists, values=values, cuts=found.cuts), again


def _asked(model: Model, wrt: Sequence[str] | None, no_grad: Sequence[str]) -> list[str]:
    requires = requires_grad(model.resolved, no_grad)
    if wrt is not None:
        found = list(dict.fromkeys(model.find(n).label for n in wrt))
        for label in found:
            if not requires[model.resolved.names[label].node]:
                raise no_gradient(model, label, no_grad)
        return found
    leaves = [n for n in model.leaves if n not in set(no_grad)]
    if not leaves:
        constant = next((n for n in model.resolved.names.inputs() if n.kind == "const"), None)
        if constant is not None and not no_grad:
            raise no_gradient(model, constant.label, no_grad)
        raise BindingError.of(f"{model.source.name} has no leaf to differentiate by",
                              help="give a number a name on a line of its own: `x = 2`")  # fmt: skip
    return leaves


def _label(output: str, path: Sequence[str]) -> str:
    """`do_dx`, `d2o_dx_dy`, as in the columns of `batch` and the Hessian of `grad`."""
    if not path:
        return output
    order = str(len(path)) if len(path) > 1 else ""
    return f"d{order}{output}_" + "_".join(f"d{n}" for n in path)


# ---- what is printed -----------------------------------------------------------------------------------------------


def sheet(found: Derivation, with_values: bool = False) -> Sheet:
    """The formulas to print: the boldest form that agrees with the engine.

    Raises ArithmeticError when not even the plain form does, which would be a fault of the project.
    """
    from gradcli.readback import Witness

    witness = Witness(found)
    forms = [(found, BOLD), (found, SAFE), (found, PLAIN)]
    for form, level in [(found.stepwise, BOLD), *forms] if found.stepwise else forms:
        try:
            page = _page(form, level, with_values)
        except OverflowError:
            continue
        wrong = witness.objection(page, level == PLAIN)
        if wrong is None:
            return page
    raise ArithmeticError(f"the formula of {wrong} does not agree with the engine")


def _page(found: Derivation, level: str, with_values: bool) -> Sheet:
    graph = found.graph
    roots = [line.node for line in found.lines]
    if with_values:
        roots += found.values.values()
    names = {graph.labels[n] for n, op in enumerate(graph.ops) if op == "name"}
    outer = names - set(found.values) | found.cuts
    kept, large = outer, True
    raw = full_sizes(graph, _MOST)
    if max(raw[r] for r in roots) <= _TRY:
        tidied = tidy(graph, roots, level, found.written, outer)
        sizes = full_sizes(tidied.graph, _MOST)
        if max(sizes[r] for r in tidied.roots) <= _INLINE:
            kept, large = _kept(tidied, sizes, found.cuts), False
    tidied = tidy(graph, roots, level, found.written, kept)
    large = large or largest(tidied.graph, tidied.roots) > _INLINE
    return _laid_out(found, tidied, large)


def _kept(tidied: Tidied, sizes: Sequence[int], cuts: Iterable[str]) -> set[str]:
    """Names of the model that stay in short formulas: what is long and would be written more than once."""
    graph = tidied.graph
    counts = occurrences(graph, tidied.roots)
    again = {graph.labels[n] for n, op in enumerate(graph.ops) if op == "name" and counts[n] > 1 and sizes[n] >= _WORTH}
    return again | set(cuts)


def _laid_out(found: Derivation, tidied: Tidied, large: bool) -> Sheet:
    """Names for what is kept, and in large formulas for what is shared; the results under labels of their own."""
    graph, model = tidied.graph, found.model
    taken = {*model.names, *model.resolved.aliases, *graph.labels.values()}
    labels = _Labels(taken)
    marks = graph.reachable(tidied.roots)
    kept = {n: graph.labels[n] for n, op in enumerate(graph.ops) if op == "name" and marks[n]}
    names = {graph.arguments(n)[0]: label for n, label in reversed(kept.items())} if large else {}
    names = {n: label for n, label in names.items() if graph.ops[n] not in ("leaf", "constant")}
    shared = _shared(found, tidied, labels, names) if large else {}
    definitions = sorted((kept | shared).items())
    count = len(found.lines)
    results = [
        replace(line, label=labels.hinted(line.label) if line.by else line.label, node=node)
        for line, node in zip(found.lines, tidied.roots[:count], strict=True)
    ]
    values = [Line(output, node, output) for output, node in zip(found.values, tidied.roots[count:], strict=False)]
    order = {label: i for i, label in enumerate(model.names)}
    source = (found.engine or found).graph
    leaves = [label for node, label in source.labels.items() if source.ops[node] == "leaf"]
    return Sheet(
        graph,
        tuple(Line(label, graph.arguments(n)[0] if n in kept else n) for n, label in definitions),
        tuple(results),
        tuple(values),
        names | shared,
        tuple(sorted(leaves, key=lambda label: order.get(label, -1))),
        {output: _needs(found, output) for output in found.values},
        {label: number_text(items) for label, items in found.lists.items()},
        frozenset(taken),
        {n: number_text(model.point[n]) for n in CONSTANTS if n in model.names and n in model.point},
    )


def _needs(found: Derivation, output: str) -> frozenset[str]:
    """The leaves of an output, as the text has it where it has a name there."""
    resolved = found.model.resolved
    known = output in resolved.names
    graph, node = (resolved.graph, resolved.names[output].node) if known else (found.graph, found.values[output])
    marks = graph.reachable((node,))
    return frozenset(label for n, label in graph.labels.items() if marks[n] and graph.ops[n] == "leaf")


def _shared(found: Derivation, tidied: Tidied, labels: _Labels, names: Mapping[int, str]) -> dict[int, str]:
    """Labels for what is written more than once: adjoints of intermediates by their names, others numbered."""
    hints = {tidied.at[node]: label for node, label in found.hints.items() if tidied.at[node] >= 0}
    lengths = {label: len(items) for label, items in found.lists.items()}
    nodes = [n for n in worth_a_name(tidied.graph, tidied.roots, lengths) if n not in names]
    return {n: labels.hinted(hints[n]) if n in hints else labels.next() for n in nodes}


def number_text(value: Any) -> str:
    """A float, or a column of them, in the language."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return f"[{', '.join(number_text(float(x)) for x in value)}]"


class _Labels:
    """Names that nothing else has."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.count = 0

    def next(self) -> str:
        while True:
            self.count += 1
            if f"t{self.count}" not in self.taken:
                return self.hinted(f"t{self.count}")

    def hinted(self, label: str) -> str:
        while label in self.taken:
            label += "_"
        self.taken.add(label)
        return label
