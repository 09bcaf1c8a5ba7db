"""What names mean at a line of the file: the definitions above it, values from the command line, free names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from gradcli.errors import BindingError, Diagnostic, did_you_mean, shown
from gradcli.language.resolved import Name, Resolved, last_of
from gradcli.language.syntax import Bare, Const, Definition, File, Function
from gradcli.primitives import CONSTANTS, Primitive

_MOST_HINTS = 50  # errors of one text that come with a did-you-mean: each takes about a millisecond
Place = tuple[int, int]


class Stop(Exception):
    """An error of one expression: the diagnostic is recorded, the next statement goes on."""


class Scope:
    """The state while a file is read from top to bottom.

    `nodes` are those that names mean. `reached` says whether the expression read last used any name. `checking` is on
    in claims, expectations and domains, where a name must be known from elsewhere in the file; `closed` where there are
    no names at all. `value` makes a node of a binding's text. `version` changes with whatever a call could mean.
    """

    def __init__(
        self,
        model: Resolved,
        file: File,
        rows: Mapping[str, Primitive],
        *,
        errors: list[Diagnostic] | None = None,
        broken: set[str] | None = None,
        value: Callable[[str, str], int] | None = None,
        closed: bool = False,
    ) -> None:
        self.model, self.file, self.rows = model, file, rows
        self.errors = [] if errors is None else errors
        self.broken = broken or set()
        self.value, self.closed = value, closed
        self.bindings: Mapping[str, str] = {}
        self.nodes: dict[str, int] = {}
        self.functions: dict[str, Function] = {}
        self.only_checked: dict[str, Place] = {}
        self.reached = self.checking = False
        self.version = 0

    @cached_property
    def counts(self) -> dict[str, int]:
        """How often each name is defined."""
        names: list[str] = []
        for block in self.file.blocks:
            if isinstance(block, tuple):
                names += [s.name for s in block if isinstance(s, Definition | Const)]
            else:
                names += block.names()
        return dict(Counter(names))

    @cached_property
    def lines(self) -> dict[str, list[Place]]:
        """Where each name is defined."""
        found: dict[str, list[Place]] = {}
        for statement in self.file.statements():
            if isinstance(statement, Definition | Const):
                found.setdefault(statement.name, []).append((statement.name_start, statement.name_end))
        return found

    @cached_property
    def extents(self) -> dict[str, list[Place]]:
        """From where to where each definition of a name goes."""
        found: dict[str, list[Place]] = {}
        for statement in self.file.statements():
            if isinstance(statement, Definition):
                found.setdefault(statement.name, []).append((statement.start, statement.end))
        return found

    @cached_property
    def function_lines(self) -> dict[str, Place]:
        return {
            statement.name: (statement.name_start, statement.name_end)
            for block in reversed(self.file.blocks)
            if isinstance(block, tuple)
            for statement in reversed(block)
            if isinstance(statement, Function)
        }

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names that some expression of the file uses as variables."""
        return frozenset(
            value
            for statement in self.file.statements()
            if isinstance(statement, Definition | Bare)
            for kind, value, _, _ in statement.expression.code
            if kind == "name"
        )

    # Errors.

    def fail(self, message: str, place: Place, help: str | None = None) -> Stop:
        """Record an error; the caller raises what is returned."""
        self.errors.append(Diagnostic(message, self.model.span(*place), help))
        return Stop()

    def hint(self, name: str, known: Iterable[str]) -> str | None:
        return did_you_mean(name, known) if len(self.errors) < _MOST_HINTS else None

    def unknown(self, name: str, place: Place) -> None:
        if name not in self.broken:
            hint = self.hint(name, self.nodes.keys() - {name}) or "define it above"
            self.errors.append(Diagnostic(f"unknown name {shown(name)}", self.model.span(*place), hint))

    # Names.

    def put(self, name: str, node: int) -> None:
        self.nodes[name] = node
        self.version += 1

    def record(self, name: str) -> Name:
        """What is known of a name that has a node."""
        return self.model.names[self.model.graph.labels[self.nodes[name]]]

    def add_leaf(self, name: str, label: str, kind: str, place: Place, default: int | None = None) -> Name:
        """A leaf, a const or a free name, with its value from the command line where there is one."""
        graph = self.model.graph
        graph.place = place
        record = Name(label, graph.leaf(label), kind, self.model.span(*place), default)
        if label in self.bindings and self.value is not None:
            record.default, record.bound = self.value(label, self.bindings[label]), True
        self.model.names.put(record)
        self.put(name, record.node)
        return record

    def lookup(self, name: str, place: Place) -> int:
        """The node of a variable: a definition above, a built-in constant, or a free name."""
        node = self.nodes.get(name)
        if node is not None:
            self.reached = True
            if not self.checking:
                self.only_checked.pop(name, None)
            return node
        if name in self.counts:
            raise self._too_early(name, place)
        if name in CONSTANTS and name not in self.bindings:
            return self.model.graph.constant(CONSTANTS[name], name)
        if name in self.broken:
            raise Stop
        self.reached = True
        if self.closed:
            raise self.fail(f"{shown(name)} is a name, not a number", place)
        if self.checking:
            self.only_checked.setdefault(name, place)
        return self.add_leaf(name, name, "free", place).node

    def _too_early(self, name: str, place: Place) -> Stop:
        own = self.model.span(*place).line
        if name not in self.broken and self._within_definition(name, place):
            return self.fail(
                f"{shown(name)} is used in its own definition",
                place,
                f"give {shown(name)} a first value above line {own}, or use another name",
            )
        defined = [found for found in self.lines[name] if found[0] > place[0]]
        if name in self.broken or not defined:
            return Stop()  # its own definition failed and was reported
        line = self.model.span(*defined[0]).line
        return self.fail(
            f"{shown(name)} is used on line {own} but defined on line {line}",
            place,
            f"move the definition of {shown(name)} up, before its first use",
        )

    def _within_definition(self, name: str, place: Place) -> bool:
        return any(start <= place[0] < end for start, end in self.extents.get(name, ()))


def normalised(bindings: Mapping[str, str], scope: Scope) -> dict[str, str]:
    """Bindings by label: `x@2` of two definitions is `x`."""
    return {last_of(name, scope.counts.get): text for name, text in bindings.items()}


def value_fault(name: str, text: str, found: Iterable[Diagnostic]) -> BindingError:
    """What is wrong with the VALUE of `NAME=VALUE`."""
    remedy = f"a value is a constant expression: `{name}=2`, `{name}=pi/4`, `{name}=[1,2,3]`"
    place = shown(f"{name}={text}")
    return BindingError(*[Diagnostic(f"{d.message} in {place}", None, d.help or remedy) for d in found])
