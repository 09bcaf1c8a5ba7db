"""The front door: read a model, compile it for an output, run it.

>>> import gradcli
>>> model = gradcli.parse("x = 2; w = -3; b = 6.88; o = tanh(x*w + b)")
>>> sorted(model.gradient())
['b', 'w', 'x']
>>> model.compile(wrt=["x"]).run({"w": -3.5}).gradients["x"]
-3.0...
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.calculus.adjoint import MixedRows, adjoints, depends, shaped_as
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.engine import execute
from gradcli.engine.program import Program as MachineProgram
from gradcli.engine.program import schedule
from gradcli.errors import BindingError, Diagnostic, FileError, GradientError, did_you_mean, not_utf8
from gradcli.graph import Graph
from gradcli.language.lower import Name, Resolved, lower
from gradcli.results import Column, Explanation, Number, Result
from gradcli.source import Source, Span

Values = Mapping[str, Any]


def parse(text: str, name: str = "-e", **values: Any) -> Model:
    """Read a model from its text.

    Raises ModelError, which lists every error of the text with its place.

        >>> parse("y = x^2").outputs
        ('y',)
    """
    return Model(lower(Source.of(text, name)), values)


def load(path: str | Path, **values: Any) -> Model:
    """Read a model from a UTF-8 file. Raises FileError and ModelError."""
    return Model(lower(read_source(path)), values)


def read_source(path: str | Path) -> Source:
    """Read a file as a source. Raises FileError with the reason and, for bad UTF-8, the line."""
    try:
        return Source.read(path)
    except UnicodeDecodeError as fault:
        raise not_utf8(str(path), fault) from None
    except OSError as fault:
        raise FileError.of(f"cannot read {path}: {(fault.strerror or str(fault)).lower()}") from None


class Model:
    """A parsed model: names, outputs, retention. Immutable; values given here are defaults for every run."""

    def __init__(self, resolved: Resolved, values: Values | None = None) -> None:
        self.resolved = resolved
        self._given = dict(values or {})

    @property
    def source(self) -> Source:
        return self.resolved.source

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.resolved.outputs)

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        return tuple(self.resolved.notes)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the model, in the order of the file."""
        return tuple(self.resolved.names)

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names with a value of their own that a gradient may be asked for."""
        return tuple(n.label for n in self.resolved.names.values() if n.kind in ("leaf", "free"))

    @cached_property
    def point(self) -> dict[str, Number]:
        """The values that the text itself gives, by name: floats, or (rows,) arrays."""
        found = {n.label: n.default for n in self.resolved.names.values() if n.default is not None}
        values = dict(zip(found, evaluate_constants(self.resolved, found.values()), strict=True))
        for label, value in self._given.items():
            values[self.find(label).label] = as_number(label, value)
        return values

    def find(self, label: str, span: Span | None = None) -> Name:
        """A name by its label or alias. Raises BindingError with a near miss."""
        name = self.resolved.find(label)
        if name is None:
            hint = did_you_mean(label, self.resolved.known()) or f"the model has {_some(self.resolved.known())}"
            raise BindingError.of(f"no name `{label}` in {self.source.name}", span, hint)
        return name

    def compile(
        self,
        of: str | None = None,
        wrt: Iterable[str] | None = None,
        retain: Iterable[str] = (),
        engine: str = "auto",
        no_grad: Iterable[str] = (),
        show: Iterable[str] = (),
        hessian: bool = False,
    ) -> Program:
        """A program for the value of one output and its gradients.

        `of`: which output (default: the model's only or last one). `wrt`: the names to differentiate by, leaves or
        intermediates (default: every leaf that requires grad). `retain`: intermediates whose gradient is kept.
        `no_grad`: leaves that do not require grad. `show`: names whose value is wanted. `hessian`: second derivatives
        by every two of the names too; of columns those within a row.

            >>> parse("y = x^2").compile().run({"x": 3}).gradients
            {'x': 6.0}
        """
        if engine not in ("auto", "numpy"):
            raise ValueError(f"engine must be auto or numpy, not {engine}")
        return Program(self, of, wrt, retain, no_grad, show, hessian)

    def gradient(self, **values: Any) -> dict[str, Number | None]:
        """The gradient of the output at a point: values of the text, unless given here.

        >>> parse("x = 1; y = x^2").gradient(x=3)
        {'x': 6.0}
        """
        return dict(self.compile().run(values).gradients)

    def explain(self, names: Iterable[str] = (), of: str | None = None, **values: Any) -> list[Explanation]:
        """For each name is_leaf, requires_grad, retained, gradient, and the reason."""
        from gradcli.explain import explain

        return explain(self, list(names), of, values)

    def derivative(self, of: str, *by: str) -> Model:
        """The model with one more definition, its output: the derivative of `of` by the names in turn.

        >>> parse("x = 3; y = x^3").derivative("y", "x", "x").compile().run({}).value
        18.0
        """
        names = ", ".join(_quote(self.find(n).label) for n in (of, *by))
        return Model(lower(self.source.plus(f"d({names})")), self._given)


class Program:
    """One output, its gradients and retained adjoints, compiled once for each set of names that hold columns."""

    def __init__(
        self,
        model: Model,
        of: str | None,
        wrt: Iterable[str] | None,
        retain: Iterable[str],
        no_grad: Iterable[str],
        show: Iterable[str],
        hessian: bool,
    ) -> None:
        self.model = model
        self.hessian = hessian
        resolved = model.resolved
        self.output = model.find(of or (model.outputs[-1] if model.outputs else "")).label
        self.no_grad = frozenset(model.find(n).label for n in no_grad)
        self.requires = requires_grad(resolved, self.no_grad)
        self.wanted = tuple(dict.fromkeys(self._asked(n) for n in wrt)) if wrt is not None else self._default_wanted()
        retained = dict.fromkeys(model.find(n).label for n in retain)
        self.retained = tuple(n for n in retained if not self.is_leaf(n))
        for name in self.retained:
            if not self.requires[resolved.names[name].node]:
                raise no_gradient(model, name, self.no_grad)
        self.show = tuple(dict.fromkeys(model.find(n).label for n in show))
        self._compiled: dict[frozenset[str], MachineProgram] = {}
        self._lock = threading.Lock()
        self.needed = self._needed_leaves()

    def _asked(self, name: str) -> str:
        label = self.model.find(name).label
        if not self.requires[self.model.resolved.names[label].node]:
            raise no_gradient(self.model, label, self.no_grad)
        return label

    def _default_wanted(self) -> tuple[str, ...]:
        return tuple(n for n in self.model.leaves if n not in self.no_grad)

    def is_leaf(self, label: str) -> bool:
        return self.model.resolved.names[label].kind != "intermediate"

    def _roots(self) -> list[int]:
        names = self.model.resolved.names
        labels = (self.output, *self.wanted, *self.retained, *self.show)
        return [names[label].node for label in labels]

    def _needed_leaves(self) -> dict[str, Name]:
        """What must have a value: leaves that the output or a shown name is computed from."""
        resolved = self.model.resolved
        names = resolved.names
        marks = resolved.graph.reachable([names[n].node for n in (self.output, *self.show)])
        return {n.label: n for n in names.values() if n.kind != "intermediate" and marks[n.node]}

    def slots(self, columns: Iterable[str] = ()) -> int:
        """How many registers the program computes into: what is not retained does not count."""
        return self.machine(frozenset(columns)).slots

    def machine(self, columns: frozenset[str]) -> MachineProgram:
        with self._lock:
            program = self._compiled.get(columns)
            if program is None:
                program = self._compiled[columns] = self._build(columns)
            return program

    def _build(self, columns: frozenset[str]) -> MachineProgram:
        resolved = self.model.resolved
        names = resolved.names
        literals = {resolved.graph.labels[node] for node in resolved.graph.lists}
        try:
            graph, at = specialise(resolved.graph, columns | literals, self._roots())
            output = at[names[self.output].node]
            asked = dict.fromkeys((*self.wanted, *self.retained))
            found = adjoints(graph, output, [at[names[n].node] for n in asked])
            for n in asked:  # a path through `d` may end in a constant slope: 0, not none
                if n in self.filled and at[names[n].node] not in found:
                    like = at[names[n].node]
                    found[like] = shaped_as(graph, graph.constant(0.0), like if graph.columns[like] else output)
            roots = [output, *(found[at[names[n].node]] for n in asked if n in self.filled)]
            if self.hessian:
                roots += second(graph, {n: at[names[n].node] for n in self.wanted}, found)
        except MixedRows as fault:
            raise mixed_rows(self.model, fault) from None
        taints = [-1] + [0] * (len(roots) - 1)
        roots += [at[names[n].node] for n in self.show]
        taints += [-1] * len(self.show)
        machine, placed = simplify(graph, roots)
        return schedule(machine, placed, taints)

    @cached_property
    def filled(self) -> frozenset[str]:
        """The names asked for that the output depends on: those whose gradient is not none."""
        resolved = self.model.resolved
        names = resolved.names
        asked = dict.fromkeys((*self.wanted, *self.retained))
        output = names[self.output].node
        return frozenset(
            n for n in asked if depends(resolved.graph, [names[n].node], output)[output] and names[n].node <= output
        )

    def values(self, given: Values) -> tuple[dict[str, Number], int, frozenset[str]]:
        """The value of every leaf the program needs, the number of rows, and which are columns.

        Raises BindingError: all missing values at once, unknown names, columns of different lengths.
        """
        model = self.model
        values = dict(model.point)
        for label, value in given.items():
            name = model.find(label)
            if name.kind == "intermediate":
                raise BindingError.of(
                    f"`{label}` is computed in {model.source.name}, it cannot be given a value",
                    name.span,
                    "parse the model with the value to cut it into a leaf",
                )
            values[name.label] = as_number(label, value)
        missing = [n for n in self.needed.values() if n.label not in values]
        if missing:
            raise BindingError(
                *[
                    Diagnostic(
                        f"`{n.label}` has no value",
                        n.span,
                        f"give it one: `{n.label}=VALUE`, or define `{n.label} = ...` in the file",
                    )
                    for n in missing
                ]
            )
        used = {label: values[label] for label in self.needed}
        for node, array in zip(model.resolved.graph.lists, literal_columns(model.resolved), strict=True):
            used[model.resolved.graph.labels[node]] = array
        sizes: dict[int, str] = {}
        for label, value in used.items():
            if not isinstance(value, float):
                sizes.setdefault(len(value), label)
        if len(sizes) > 1:
            (a, first), (b, second) = list(sizes.items())[:2]
            span = next((self.needed[n].span for n in (second, first) if n in self.needed), None)
            raise BindingError.of(
                f"columns of different lengths: {_column_name(first)} has {_rows(a)}, "
                f"{_column_name(second)} has {_rows(b)}",
                span,
                "give all columns the same number of rows; a single number is used in every row",
            )
        columns = frozenset(label for label, value in used.items() if not isinstance(value, float))
        return used, next(iter(sizes), 1), columns

    def run(
        self,
        columns: Values | None = None,
        threads: int | None = None,
        out: Sequence[Any] | None = None,
        block: int | None = None,
    ) -> Result:
        """Evaluate at the given values by name: numbers, sequences, arrays.

        Each result is a float, or a (rows,) float64 array that belongs to the caller (one of `out` where given: the
        value, then the gradients, as far as they are columns). Raises BindingError and GradientError.
        """
        values, rows, labels = self.values(columns or {})
        program = self.machine(labels)
        numbers = execute.run(program, values, rows, threads, block, out)
        return self._result(numbers, rows)

    def _result(self, numbers: Sequence[Number], rows: int) -> Result:
        asked = [n for n in dict.fromkeys((*self.wanted, *self.retained)) if n in self.filled]
        rest = iter(numbers[1:])
        found = {n: next(rest) for n in asked}
        by = [n for n in self.wanted if n in self.filled] if self.hessian else []
        hessian = {x: {y: next(rest) for y in by} for x in by}
        shown = dict(zip(self.show, rest, strict=True))
        return Result(
            self.output,
            numbers[0],
            {n: found.get(n) for n in self.wanted},
            {n: found.get(n) for n in self.retained},
            shown,
            hessian,
            rows,
        )


def requires_grad(resolved: Resolved, no_grad: Iterable[str] = ()) -> bytearray:
    """For each node whether it requires grad: leaves unless const or `no_grad`, others when any operand's does."""
    off = set(no_grad)
    nodes = [n.node for n in resolved.names.values() if n.kind in ("leaf", "free") and n.label not in off]
    return depends(resolved.graph, nodes, len(resolved.graph) - 1) if nodes else bytearray(len(resolved.graph))


def no_gradient(model: Model, label: str, no_grad: Iterable[str]) -> GradientError:
    """`label` cannot be retained or asked for: it does not require grad. Names the cause."""
    from gradcli.explain import cut

    name = model.find(label)
    why, remedy, span = cut(model, name, no_grad)
    return GradientError.of(f"`{label}` does not require grad: {why}", span or name.span, remedy)


def second(graph: Graph, wanted: Mapping[str, int], found: Mapping[int, int]) -> list[int]:
    """The second derivatives by every two of the names that have a first: rows of the Hessian, one after the other."""
    nodes = [node for node in wanted.values() if node in found]
    rows = []
    for node in nodes:
        again = adjoints(graph, found[node], nodes)
        zero = graph.constant(0.0)
        rows += [again[n] if n in again else shaped_as(graph, zero, found[node]) for n in nodes]
    return rows


def mixed_rows(model: Model, fault: MixedRows) -> GradientError:
    names = {"gather": "sum", "min_rows": "min", "max_rows": "max", "prod_rows": "prod", "logsumexp_rows": "logsumexp"}
    span = Span(model.source, *fault.place) if fault.place[0] >= 0 else None
    return GradientError.of(
        f"a gradient for each row would mix rows: it passes through `{names.get(fault.op, fault.op)}`",
        span,
        "ask for a scalar output, such as `sum(...)` of this one, or `detach` the reduction",
    )


def evaluate_constants(resolved: Resolved, nodes: Iterable[int]) -> list[Number]:
    """The values of nodes that depend on numbers only."""
    arrays = dict(zip((resolved.graph.labels[n] for n in resolved.graph.lists), literal_columns(resolved), strict=True))
    results: list[Number] = []
    for node in nodes:
        number = resolved.graph.number(node)
        results.append(_computed(resolved, node, arrays) if number is None else number)
    return results


def _computed(resolved: Resolved, node: int, arrays: Mapping[str, Column]) -> Number:
    graph, at = specialise(resolved.graph, arrays, (node,))
    machine, placed = simplify(graph, [at[node]])
    program = schedule(machine, placed)
    own = {label: arrays[label] for label in program.column_inputs}
    return execute.run(program, own, len(next(iter(own.values()))) if own else 1)[0]


def literal_columns(resolved: Resolved) -> list[Column]:
    """The columns written as lists in the text, in order."""
    found = []
    graph = resolved.graph
    for items in graph.lists.values():
        numbers = [graph.number(i) for i in items]
        if None in numbers:
            odd = [i for i in items if graph.number(i) is None]
            known, at = specialise(graph, (), odd)
            machine, placed = simplify(known, [at[i] for i in odd])
            values = iter(execute.run(schedule(machine, placed), {}, 1))
            numbers = [next(values) if n is None else n for n in numbers]  # type: ignore[misc]
        found.append(np.array(numbers, dtype=np.float64))
    return found


def as_number(label: str, value: Any) -> Number:
    """A float, or a contiguous float64 array of one dimension. Raises BindingError."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64) if not isinstance(value, (int, float)) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise BindingError.of(f"the value of `{label}` is not a number or a column of numbers") from None
    if isinstance(array, float):
        return array
    if np.ndim(value) == 0:
        return float(array[0])
    if array.ndim != 1:
        raise BindingError.of(
            f"the value of `{label}` has {array.ndim} dimensions", help="a column has one dimension: one number per row"
        )
    return array


def match_names(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a glob matches."""
    return [n for n in names if fnmatchcase(n, pattern)]


def _quote(label: str) -> str:
    return f"`{label}`"


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _column_name(label: str) -> str:
    return "a list" if label.startswith("\n") else f"`{label}`"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown or "no names"
