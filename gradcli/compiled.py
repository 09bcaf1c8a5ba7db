"""A model compiled for one output: its value, its gradients, and the adjoints that are retained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from gradcli.calculus.adjoint import MixedRows, adjoints, receives, shaped_as
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.columns import by_name
from gradcli.engine import execute
from gradcli.engine.program import Program as MachineProgram
from gradcli.engine.program import schedule
from gradcli.errors import BindingError, Diagnostic, GradientError
from gradcli.graph import Graph
from gradcli.leaves import requires_grad
from gradcli.results import Number, Result
from gradcli.source import Span
from gradcli.values import as_number, check_out, several

if TYPE_CHECKING:
    from gradcli.api import Model

Values = Mapping[str, Any]

_SCALAR = "ask for a scalar output, such as `sum(...)` of this one, or `detach` the reduction"
LARGE = 100_000  # rows from which compiling to native code pays for a single run, and last bits may give way


class Program:
    """One output, its gradients and retained adjoints, compiled once for each set of names that hold columns.

    Immutable; threads may share one.

        >>> import gradcli
        >>> program = gradcli.parse("y = tanh(w*x)").compile()
        >>> program.run({"x": [0.0, 1.0], "w": 2.0}).gradients["x"].tolist()
        [2.0, 0.1413...]
    """

    def __init__(
        self,
        model: Model,
        of: str | None,
        wrt: Iterable[str] | None,
        retain: Iterable[str],
        no_grad: Iterable[str],
        show: Iterable[str],
        hessian: bool,
        engine: str = "auto",
    ) -> None:
        self.model = model
        self.engine = engine
        self.hessian = hessian
        resolved = model.resolved
        if of is None and not model.outputs:
            raise BindingError.of(f"nothing in {model.source.name} can be an output", help="end it with an expression")
        if not isinstance(of, str | None):
            raise TypeError(f"`of` takes one name, not {type(of).__name__}; compile once for each output")
        self.output = model.find(model.outputs[-1] if of is None else of).label
        self.no_grad = frozenset(model.find(n).label for n in several(no_grad, "no_grad"))
        self.requires = requires_grad(resolved, self.no_grad)
        by = self._default_wanted() if wrt is None else map(self._asked, several(wrt, "wrt"))
        self.wanted = tuple(dict.fromkeys(by))
        retained = dict.fromkeys(model.find(n).label for n in several(retain, "retain"))
        self.retained = tuple(n for n in retained if not self.is_leaf(n))
        for name in self.retained:
            if not self.requires[resolved.names[name].node]:
                raise no_gradient(model, name, self.no_grad)
        self.show = tuple(dict.fromkeys(model.find(n).label for n in several(show, "show")))
        self._compiled: dict[frozenset[str], MachineProgram] = {}
        self._bound: dict[str, str] = {}  # names that were given a value before: a search takes as long as a run of few
        self._lock = threading.Lock()
        marks = resolved.graph.reachable([resolved.names[n].node for n in (self.output, *self.show)])
        leaves = [n for n in resolved.names.inputs() if marks[n.node]]
        self.needed = {n.label: n for n in leaves}  # what must have a value
        self.literals = frozenset(resolved.graph.labels[n] for n in resolved.graph.lists if marks[n])

    def __getstate__(self) -> dict[str, Any]:
        """Without the lock, and without what is compiled: it is compiled again where it is run."""
        return {**self.__dict__, "_compiled": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<Program of {self.model.source.name}: `{self.output}` by {some(self.wanted)}>"

    def _asked(self, name: str) -> str:
        label = self.model.find(name).label
        if not self.requires[self.model.resolved.names[label].node]:
            raise no_gradient(self.model, label, self.no_grad)
        return label

    def _default_wanted(self) -> tuple[str, ...]:
        return tuple(n for n in self.model.leaves if n not in self.no_grad)

    def is_leaf(self, label: str) -> bool:
        """Whether a name has a value of its own."""
        return self.model.resolved.names[label].kind != "intermediate"

    def _roots(self) -> list[int]:
        names = self.model.resolved.names
        labels = (self.output, *self.wanted, *self.retained, *self.show)
        return [names[label].node for label in labels]

    def slots(self, columns: Iterable[str] = ()) -> int:
        """How many registers the program computes into: what is not retained does not count."""
        return self.machine(frozenset(columns)).slots

    def machine(self, columns: frozenset[str]) -> MachineProgram:
        """What the engine runs when these names hold columns."""
        with self._lock:
            program = self._compiled.get(columns)
            if program is None:
                program = self._compiled[columns] = self._build(columns)
            return program

    def _build(self, columns: frozenset[str]) -> MachineProgram:
        return schedule(*self._simplified(columns))

    def _simplified(self, columns: frozenset[str]) -> tuple[Graph, list[int], list[int]]:
        """What the engine computes: a graph of machine operations, its roots and their taints. The graph it is made of
        is gone by then."""
        graph, roots, taints = self._differentiated(columns)
        machine, placed = simplify(graph.close(), roots)
        return machine.close(), placed, taints

    def _differentiated(self, columns: frozenset[str]) -> tuple[Graph, list[int], list[int]]:
        resolved = self.model.resolved
        names = resolved.names
        try:
            graph, at = specialise(resolved.graph, columns, self._roots())
            output = at[names[self.output].node]
            asked = dict.fromkeys((*self.wanted, *self.retained))
            found = adjoints(graph, output, [at[names[n].node] for n in asked])
            for n in asked:  # a path through `d` may end in a constant slope: 0, not none
                if n in self.filled and at[names[n].node] not in found:
                    like = at[names[n].node]
                    found[like] = shaped_as(graph, graph.constant(0.0), like if graph.columns[like] else output)
            roots = [output, *(found[at[names[n].node]] for n in asked if n in self.filled)]
        except MixedRows as fault:
            raise mixed_rows(self.model, fault) from None
        if self.hessian:
            roots += self._second(graph, at, found)
        taints = [-1] + [0] * (len(roots) - 1)
        roots += [at[names[n].node] for n in self.show]
        taints += [-1] * len(self.show)
        return graph, roots, taints

    def _second(self, graph: Graph, at: Sequence[int], found: Mapping[int, int]) -> list[int]:
        names = self.model.resolved.names
        try:
            return second(graph, {n: at[names[n].node] for n in self.wanted}, found)
        except MixedRows as fault:
            scalars = [n for n in self.wanted if not graph.columns[at[names[n].node]]]
            remedy = f"ask by scalars only, such as {some(scalars[:3])}" if scalars else "ask by scalars only"
            raise mixed_rows(self.model, fault, f"{remedy}: `--wrt`, or `wrt` in Python") from None

    @cached_property
    def filled(self) -> frozenset[str]:
        """The names asked for that the output depends on: those whose gradient is not none."""
        resolved = self.model.resolved
        names = resolved.names
        marks = receives(resolved.graph, names[self.output].node)
        return frozenset(n for n in (*self.wanted, *self.retained) if marks[names[n].node])

    def _bind(self, label: str) -> str:
        """The name that a given value belongs to. Raises BindingError."""
        name = self.model.find(label)
        if name.kind == "intermediate":
            raise BindingError.of(
                f"`{label}` is computed in {self.model.source.name}, it cannot be given a value",
                name.span,
                "parse the model with the value to cut it into a leaf",
            )
        self._bound[label] = name.label
        return name.label

    @cached_property
    def _found(self) -> tuple[str, ...]:
        """The names of the gradients among the numbers of a run, in their order."""
        return tuple(n for n in dict.fromkeys((*self.wanted, *self.retained)) if n in self.filled)

    def values(self, given: Values) -> tuple[dict[str, Number], int, frozenset[str]]:
        """The value of every leaf the program needs, the number of rows, and which are columns.

        Raises BindingError: all missing values at once, unknown names, columns of different lengths.
        """
        model = self.model
        values = dict(model.point)
        for label, value in given.items():
            values[self._bound.get(label) or self._bind(label)] = as_number(label, value)
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
        if self.literals:
            used |= {label: array for label, array in model.literals.items() if label in self.literals}
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
        columns: Any = None,
        threads: int | None = None,
        out: Sequence[Any] | None = None,
        block: int | None = None,
    ) -> Result:
        """Evaluate at the given values by name: numbers, sequences, arrays; or at the columns of a polars or pandas
        frame or an Arrow table.

        Each result is a float, or a (rows,) float64 array that belongs to the caller (one of `out` where given: the
        value, then the gradients, as far as they are columns). Raises BindingError and GradientError.

        >>> import gradcli
        >>> gradcli.parse("y = x^2").compile().run({"x": [1, 2, 3]}).value.tolist()
        [1.0, 4.0, 9.0]
        """
        if threads is not None:
            _at_least_one("threads", threads)
        if block is not None:
            _at_least_one("block", block)
        given = columns if type(columns) is dict else by_name(columns or {}, self.model.resolved.known())
        values, rows, labels = self.values(given)
        program = self.machine(labels)
        if out is not None:
            check_out(out, program.output_count, rows, values.values())
        numbers = engine_for(self.engine, program, rows)(program, values, rows, threads, block, out)
        return self._result(numbers, rows)

    def _result(self, numbers: Sequence[Number], rows: int) -> Result:
        found = dict(zip(self._found, numbers[1:], strict=False))
        rest = iter(numbers[1 + len(found) :])
        by = [n for n in self.wanted if n in self.filled] if self.hessian else []
        hessian = {x: {y: next(rest) for y in by} for x in by}
        shown = dict(zip(self.show, rest, strict=True))
        return Result(
            self.output,
            numbers[0],
            {n: found.get(n) for n in self.wanted},
            {n: found.get(n) for n in self.retained} if self.retained else {},
            shown,
            hessian,
            rows,
        )


def some(names: Sequence[str]) -> str:
    """The first names of many, for a message."""
    listed = ", ".join(f"`{n}`" for n in names[:8])
    return f"{listed} and {len(names) - 8} more" if len(names) > 8 else listed or "no names"


def no_gradient(model: Model, label: str, no_grad: Iterable[str]) -> GradientError:
    """`label` cannot be retained or asked for: it does not require grad. Names the cause."""
    from gradcli.explain import cut  # for those who ask for what there is not

    name = model.find(label)
    why, remedy, span = cut(model, name, no_grad)
    return GradientError.of(f"`{label}` does not require grad: {why}", span or name.span, remedy)


def engine_for(asked: str, program: MachineProgram, rows: int) -> Callable[..., list[Number]]:
    """What runs a program: numpy, or native code where it is asked for or pays, and can be had."""
    few = rows < LARGE
    if asked == "pointwise" or not program.column_inputs or (few and asked != "native"):
        return execute.run
    if asked != "numpy":
        from gradcli.engine import native

        if not (native.available() or native.refusal(program)):
            return native.run
    return execute.run if few else partial(execute.run, large=True)


def second(graph: Graph, wanted: Mapping[str, int], found: Mapping[int, int]) -> list[int]:
    """The second derivatives by every two of the names that have a first: rows of the Hessian, one after the other."""
    nodes = [node for node in wanted.values() if node in found]
    rows = []
    for node in nodes:
        again = adjoints(graph, found[node], nodes)
        zero = graph.constant(0.0)
        rows += [again[n] if n in again else shaped_as(graph, zero, found[node]) for n in nodes]
    return rows


def mixed_rows(model: Model, fault: MixedRows, remedy: str = _SCALAR) -> GradientError:
    span = Span(model.source, *fault.place) if fault.place[0] >= 0 else None
    written = span.text.partition("(")[0] if span else ""
    what = written if written.isidentifier() else {"gather": "sum"}.get(fault.op, fault.op.removesuffix("_rows"))
    return GradientError.of(
        f"a gradient for each row would mix rows: it passes through `{what}`",
        span,
        remedy,
    )


def _at_least_one(name: str, count: int) -> None:
    if count < 1:
        raise ValueError(f"`{name}` must be 1 or more, not {count}")


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _column_name(label: str) -> str:
    return "a list" if label.startswith("\n") else f"`{label}`"
