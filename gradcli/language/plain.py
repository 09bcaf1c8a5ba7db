"""Runs of definitions of nothing but names above, numbers, operators and functions of the table, in tight loops.

What is not so plain is left alone: it is read again by the `Inliner`, which finds the nodes that were made of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradcli.graph import is_simple
from gradcli.language.inline import UNARY, Inliner, canonical
from gradcli.language.resolved import Name
from gradcli.language.syntax import Definition, Expression, Function, Statement
from gradcli.source import Span

_LONGEST = 100  # steps of an expression that is read here


class PlainDefinitions:
    """Reads what it can of the statements of a file."""

    def __init__(self, inliner: Inliner, statements: Sequence[Statement]) -> None:
        self.inliner, self.scope, self.graph = inliner, inliner.scope, inliner.graph
        self.statements = statements
        self.off = any(type(s) is Function for s in statements)
        self.stack: list[int] = []
        self.intern = self.graph.interner()

    def read(self, i: int) -> int:
        """Define what the statements from number `i` on define, and return the number of the first that is not plain;
        all before it are intermediates of one definition."""
        scope, graph, model = self.scope, self.graph, self.scope.model
        if self.off or scope.only_checked or scope.checking:
            return i
        counts, bindings, names, records = scope.counts, scope.bindings, scope.names, model.names
        source, name_node, expression_node, new = model.source, graph.name, self._node, tuple.__new__
        begin = i
        for i in range(begin, len(self.statements)):
            statement = self.statements[i]
            if type(statement) is not Definition:
                break
            name, start, end, expression, _, _ = statement
            if counts[name] != 1 or name in bindings or not 1 < len(expression.form) <= _LONGEST:
                break
            node = expression_node(expression)
            if node < 0:
                break
            graph.place = expression[4:]
            record = Name(name, name_node(node, name), "intermediate", new(Span, (source, start, end)))
            names[name] = records[name] = record
        else:
            i = len(self.statements)
        scope.version += i - begin
        return i

    def _node(self, expression: Expression) -> int:
        """The node of an expression, -1 where it is not plain or names nothing."""
        graph, stack, names, rows = self.graph, self.stack, self.scope.names, self.inliner.rows
        numbers, intern, decimal, push, pop = graph.numbers, self.intern, graph.decimal, stack.append, stack.pop
        form, tokens, starts, at, _, _ = expression
        stack.clear()
        named = False
        for kind, value, token, first, last in form:
            if kind == "name":
                record = names.get(tokens[at + token][1])
                if record is None:
                    return -1
                push(record.node)
                named = True
                continue
            start, end = starts[at + first], starts[at + last] + tokens[at + last][2]
            if kind == "op":
                b = pop()
                arguments = (b,) if value in UNARY else (pop(), b)
                if b in numbers and arguments[0] in numbers and (value != "neg" or is_simple(numbers[b][0])):
                    graph.place = start, end
                    push(self.inliner.operation(value, arguments))
                else:
                    push(intern(value, arguments, 0, start, end))
            elif kind == "number":
                text = canonical(tokens[at + token][1])
                push(decimal(text, start, end))
            else:
                row = rows.get((tokens[at + token][1], value)) if kind == "call" else None
                if row is None or row == "where":
                    return -1
                operands = tuple(stack[-value:])
                del stack[-value:]
                push(intern(row, operands, 0, start, end))
        return stack[0] if named else -1
