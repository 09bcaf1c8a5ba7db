"""Statements in order: what each of them does to the names, outputs and checks of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gradcli.errors import Diagnostic, ModelError, shown
from gradcli.language.inline import Inliner
from gradcli.language.parser import parse, parse_expression
from gradcli.language.resolved import ClaimLine, Condition, ExpectLine, Name, Names, Resolved
from gradcli.language.scope import Place, Scope, Stop, normalised, value_fault
from gradcli.language.syntax import Bare, Claim, Const, Definition, Domain, Expect, File, Function, NameRef, Statement
from gradcli.language.syntax import Output as OutputLine
from gradcli.language.syntax import Retain as RetainLine
from gradcli.primitives import callable_rows, new_graph
from gradcli.source import Source

if TYPE_CHECKING:
    from gradcli.language.alike import Run

__all__ = ["ClaimLine", "Condition", "ExpectLine", "Name", "Resolved", "lower"]

_MOST_ERRORS = 20
_CHARACTERS = 4  # of text for each node of a model and its gradients, at least
_PATIENCE = 32  # definitions of a run that are read one by one before more of them are tried at once
_BARE = "value"  # what the output of an expression without a name is called


def lower(source: Source, bindings: Mapping[str, str] | None = None) -> Resolved:
    """Read a model. `bindings` are the texts of values by name: they give free names a value, leaves a new one, and cut
    intermediates.

    Raises ModelError with every error of the text, BindingError when a value is no constant.
    """
    lowerer = _Lowerer(source, bindings or {})
    try:
        return lowerer.run()
    finally:
        lowerer.scope.value = None  # else text and tokens stay until the next collection, which a command switches off


class _Lowerer:
    def __init__(self, source: Source, bindings: Mapping[str, str]) -> None:
        rows = callable_rows()
        file, errors = parse(source, frozenset(rows))
        self.file, self.given = file, bindings
        self.model = Resolved(source, new_graph(shaped=False), Names(source))
        self.model.graph.reserve(len(source.text) // _CHARACTERS)
        self.scope = Scope(self.model, file, rows, errors=errors, broken=set(file.broken), value=self.value)
        self.scope.bindings = normalised(bindings, self.scope)
        self.inliner = Inliner(self.scope)
        self.seen: dict[str, int] = {}
        self.last: str | None = None
        self.statements = [s for block in file.blocks if isinstance(block, tuple) for s in block]
        self.bare = sum(isinstance(s, Bare) for s in self.statements)
        self.bare_seen = 0
        self.answer: tuple[int, str] | None = None  # of the last expression without a name: its part and label

    def run(self) -> Resolved:
        for block in self.file.blocks:
            if isinstance(block, tuple):
                for statement in block:
                    self.read(statement)
            else:
                self.read_run(block)
        self.finish()
        self.report()
        return self.model

    def read(self, statement: Statement) -> None:
        try:
            match statement:
                case Definition():
                    self.last = self.define(statement)
                case Const():
                    self.define_const(statement)
                case Function():
                    self.define_function(statement)
                case Bare():
                    self.last = self.define_value(statement)
                case Claim():
                    self.claim(statement)
                case Expect():
                    self.expect(statement)
                case _:
                    pass  # output, retain and domain mean the last definitions: see finish
        except Stop:
            if isinstance(statement, Definition):
                self.scope.nodes.pop(statement.name, None)
                self.last = None
            elif isinstance(statement, Function):
                self.scope.broken.add(statement.name)

    def read_run(self, run: Run) -> None:
        """Definitions that are written alike: at once what is plain, the others one by one; more and more of these
        where little is plain."""
        from gradcli.language.bulk import BulkReader  # not for short texts

        bulk, i, again, patience = BulkReader(self.inliner, run, self.label), 0, 0, _PATIENCE
        while i < len(run):
            if i >= again:
                end = bulk.read(i)
                if end > i:
                    self.last, i, patience = bulk.name(end - 1), end, _PATIENCE
                    continue
                again, patience = i + patience, 2 * patience
            self.read(run[i])
            i += 1

    def finish(self) -> None:
        """The statements that mean the last definition of a name, wherever they stand."""
        self.model.counts = {name: count for name, count in self.scope.counts.items() if count > 1}
        for statement in self.statements:
            if isinstance(statement, Domain):
                self.domain(statement)
            elif isinstance(statement, RetainLine):
                for ref in statement.names:
                    if (label := self.reference(ref)) is not None:
                        self.model.retained.append((label, self.model.span(ref.start, ref.end)))
        self.model.outputs = self.outputs()
        for name, place in self.scope.only_checked.items():
            known = name in self.scope.nodes and name not in self.scope.bindings
            if known and self.scope.record(name).kind == "free":
                self.scope.unknown(name, place)
        for name in self.given:
            record = self.model.find(name)
            if record is not None and record.bound:
                self.model.used.add(name)

    def outputs(self) -> list[str]:
        """What the last part that asks for something asks for: its `output` lines, or its expression without a name.

        A text appended with -e is a part of its own, so that a question put to a file is answered whatever its outputs.
        """
        part_of = self.model.source.part_of
        found: dict[int, list[str]] = {}
        for statement in self.statements:
            if isinstance(statement, OutputLine):
                labels = [label for ref in statement.names if (label := self.reference(ref)) is not None]
                found.setdefault(part_of(statement.start), []).extend(labels)
        if self.answer is not None:
            part, label = self.answer
            found.setdefault(part, [label])
        if found:
            return list(dict.fromkeys(found[max(found)]))
        return [self.last] if self.last is not None else []

    def report(self) -> None:
        """Raise what was found, in the order of the text."""
        errors = self.scope.errors
        if not errors:
            if not self.model.outputs and not self.model.names and not self.scope.functions:
                fact = f"{self.model.source.name} holds no expression"
                raise ModelError.of(fact, help="write a definition such as `y = x^2`, or an expression")
            return
        unique = {(d.span.start if d.span else -1, d.message): d for d in errors}
        found = sorted(unique.values(), key=lambda d: d.span.start if d.span else -1)
        if len(found) > _MOST_ERRORS:
            more = Diagnostic(f"{len(found) - _MOST_ERRORS} more errors are not shown", found[_MOST_ERRORS].span)
            found = [*found[:_MOST_ERRORS], more]
        raise ModelError(*found)

    def reference(self, ref: NameRef) -> str | None:
        """The label of a name in `output` or `retain`: of its last definition."""
        record = self.model.find(ref.name)
        if record is not None:
            return record.label
        self.scope.unknown(ref.name, (ref.start, ref.end))
        return None

    # Definitions.

    def label(self, name: str) -> str:
        """`x@1`, `x@2` for earlier definitions, the bare name for the last."""
        count = self.scope.counts[name]
        if count == 1:
            return name
        number = self.seen[name] = self.seen.get(name, 0) + 1
        return name if number == count else f"{name}@{number}"

    def define(self, statement: Definition) -> str:
        scope, name = self.scope, statement.name
        label = self.label(name)
        place = statement.name_start, statement.name_end
        scope.reached = False
        node = self.inliner.expression(statement.expression)
        if not scope.reached:
            return scope.add_leaf(name, label, "leaf", place, node).label
        if label in scope.bindings:
            fact = f"{shown(label)} is computed here, but `{label}=` on the command line replaces it"
            self.model.notes.append(Diagnostic(fact, self.model.span(*place), severity="note"))
            return scope.add_leaf(name, label, "leaf", place).label
        alias = statement.expression.bare_name
        if alias is not None and alias in scope.nodes:
            record = scope.record(alias)
            record.aliases += (label,)
            self.model.aliases[label] = record.label
            scope.put(name, record.node)
            return record.label
        record = self.intermediate(label, node, place, (statement.expression.start, statement.expression.end))
        scope.put(name, record.node)
        return label

    def intermediate(self, label: str, node: int, place: Place, whole: Place) -> Name:
        graph = self.model.graph
        graph.place = whole
        record = Name(label, graph.name(node, label), "intermediate", self.model.span(*place))
        self.model.names.put(record)
        return record

    def define_const(self, statement: Const) -> None:
        label = self.label(statement.name)
        place = statement.name_start, statement.name_end
        default = None
        if statement.expression is not None:
            self.scope.reached = False
            default = self.inliner.expression(statement.expression)
            if self.scope.reached:
                remedy = f"for `{statement.name}` without a gradient write `{statement.name} = detach(...)`"
                raise self.scope.fail(
                    f"the value of const {shown(statement.name)} depends on other names",
                    (statement.expression.start, statement.expression.end),
                    f"a const is a number; {remedy}",
                )
        self.scope.add_leaf(statement.name, label, "const", place, default)

    def define_function(self, statement: Function) -> None:
        name, place = statement.name, (statement.name_start, statement.name_end)
        if name in ("d", "detach"):
            raise self.scope.fail(f"{shown(name)} cannot be redefined", place, "choose another name for the function")
        if name in self.scope.rows:
            fact = f"{shown(name)} replaces the built-in function of that name in this file"
            self.model.notes.append(Diagnostic(fact, self.model.span(*place), severity="note"))
        self.inliner.check_body(statement)
        self.scope.functions[name] = statement
        self.scope.version += 1

    def define_value(self, statement: Bare) -> str:
        """An expression without a name; one that is a bare name is that name."""
        expression = statement.expression
        place = expression.start, expression.end
        self.bare_seen += 1
        node = self.inliner.expression(expression)
        alias = expression.bare_name
        if alias is not None and alias in self.scope.nodes:
            label = self.scope.record(alias).label
        else:
            label = self.bare_label()
            record = self.intermediate(label, node, place, place)
            if _BARE not in self.scope.nodes or self.bare_seen > 1:
                self.scope.put(_BARE, record.node)
        self.answer = self.model.source.part_of(expression.start), label
        return label

    def bare_label(self) -> str:
        """`value`; numbered where the text has that name too, or where an appended text asks once more."""
        scope = self.scope
        taken = scope.counts.get(_BARE, 0) or int(_BARE in scope.nodes and scope.record(_BARE).kind == "free")
        if self.bare_seen == self.bare and not taken:
            return _BARE
        return f"{_BARE}@{taken + self.bare_seen}"

    # Checks.

    def domain(self, statement: Domain) -> None:
        self.scope.checking = True
        try:
            node = self.inliner.expression(statement.expression)
            self.model.domains.append(Condition(node, self.model.span(statement.start, statement.end)))
        except Stop:
            pass
        finally:
            self.scope.checking = False

    def claim(self, statement: Claim) -> None:
        sides = (statement.left, statement.right, statement.condition)
        self.scope.checking = True
        try:
            left, right, condition = (self.inliner.expression(side) if side else None for side in sides)
        finally:
            self.scope.checking = False
        span = self.model.span
        assert left is not None
        assert right is not None
        self.model.claims.append(
            ClaimLine(
                statement.name,
                left,
                right,
                condition,
                span(statement.start, statement.end),
                span(statement.left.start, statement.left.end),
                span(statement.right.start, statement.right.end),
            )
        )

    def expect(self, statement: Expect) -> None:
        self.scope.checking = True
        try:
            left = self.inliner.expression(statement.left)
            right = self.inliner.expression(statement.right)
        finally:
            self.scope.checking = False
        whole = self.model.span(statement.start, statement.end)
        left_span = self.model.span(statement.left.start, statement.left.end)
        self.model.expects.append(ExpectLine(left, right, statement.text, statement.tolerance, whole, left_span))

    # Values from the command line.

    def value(self, name: str, text: str) -> int:
        """The node of a VALUE: a constant expression, in which no name of the model is known."""
        source = Source.of(text, "argument")
        expression, errors = parse_expression(source, frozenset(self.scope.rows))
        if expression is None:
            raise value_fault(name, text, errors)
        model, file = Resolved(source, self.model.graph, Names(source)), File((), frozenset())
        inner = Scope(model, file, self.scope.rows, closed=True)
        place, self.model.graph.place = self.model.graph.place, (-1, -1)
        try:
            return Inliner(inner).expression(expression, placed=False)
        except Stop:
            raise value_fault(name, text, inner.errors) from None
        finally:
            self.model.graph.place = place
