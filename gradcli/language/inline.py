"""Expressions become nodes: a stack machine over postfix code. Functions are inlined where they are called.

A call sees its parameters and, for free names, the names of the file as of the calling line. Nothing here recurses:
calls push frames. What a function returns for the same arguments is kept, so that functions which call each other
twice do not grow with two to the power of their depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from gradcli.errors import shown
from gradcli.graph import Graph, is_simple
from gradcli.language.calls import counted, row_for
from gradcli.language.scope import Place, Scope, Stop
from gradcli.language.syntax import UNARY, Expression, Function, Step
from gradcli.primitives import BOOLEAN

_RECURSION = "functions are inlined, so recursion has no end; write out the steps"
_ONE_TO_NINE = "123456789"
_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_NAMES: Mapping[str, int] = MappingProxyType({})
_NUMBERS = ("add", "sub", "mul", "div", "neg")


class _Frame(NamedTuple):
    """One body under way; `key` is what its result is kept under."""

    expression: Expression
    rest: Iterator[Step]
    parameters: Mapping[str, int]
    function: Function | None = None
    key: tuple[object, ...] = ()


class Inliner:
    """Turns expressions into nodes of the graph of a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.graph: Graph = scope.model.graph
        self.memo: dict[tuple[object, ...], int] = {}
        self.stack: list[int] = []
        self.frames: list[_Frame] = []
        self.running: set[str] = set()
        self.rows: dict[tuple[str, int], str] = {}  # what calls of built-in functions mean

    def expression(self, expression: Expression, placed: bool = True) -> int:
        """The node of an expression. Raises Stop, with the error recorded."""
        self.stack.clear()
        frames = self.frames
        frames[:] = (_Frame(expression, iter(expression.form), _NOTHING),)
        if self.scope.functions:
            self.running.clear()
            self.memo.clear()
        while frames:
            if not self._run(frames[-1], placed):
                self._leave(frames.pop())
        return self.stack[0]

    def _run(self, frame: _Frame, placed: bool) -> bool:
        """A body up to the next call of a function of the file, whose frame is then the last one; False at its end."""
        graph, stack, scope, parameters = self.graph, self.stack, self.scope, frame.parameters
        ops, intern, push, pop = graph.ops, graph.intern, stack.append, stack.pop
        names = scope.nodes if scope.checking or not scope.only_checked else _NO_NAMES  # those need no look-up
        _, tokens, starts, at, _, _ = frame.expression
        for kind, value, token, first, last in frame.rest:
            if kind == "name":
                name = tokens[at + token][1]
                if name in parameters:
                    push(parameters[name])
                    continue
                if name in names:
                    scope.reached = True
                    push(names[name])
                    continue
            place = starts[at + first], starts[at + last] + tokens[at + last][2]
            if placed:
                graph.place = place
            if kind == "op":
                b = pop()
                if value in UNARY:
                    push(intern(value, (b,), 0) if graph.simple(b) is None else self.operation(value, [b]))
                elif ops[b] == "constant" == ops[stack[-1]]:
                    push(self.operation(value, [pop(), b]))
                else:
                    push(intern(value, (pop(), b), 0))
            elif kind == "number":
                text = tokens[at + token][1]
                push(graph.constant(float(text), canonical(text)))
            elif kind == "call":
                if self._call(tokens[at + token][1], value, place, at + token):
                    return True
            elif kind == "name":
                push(scope.lookup(name, place))
            else:
                push(self._chain(value) if kind == "chain" else self._list(value, place))
        return False

    def _take(self, count: int) -> list[int]:
        stack = self.stack
        arguments = stack[len(stack) - count :]
        del stack[len(stack) - count :]
        return arguments

    def _leave(self, frame: _Frame) -> None:
        if frame.function is not None:
            self.memo[frame.key] = self.stack[-1]
            self.running.discard(frame.function.name)

    def operation(self, op: str, arguments: Sequence[int]) -> int:
        """One row; short binary fractions are folded, so that `x^(1/2)` and `x^-2` have a plain exponent."""
        graph = self.graph
        if op in _NUMBERS:
            numbers = [graph.simple(a) for a in arguments]
            known = [n for n in numbers if n is not None]
            folded = fold(op, known) if len(known) == len(numbers) else None
            if folded is not None:
                return graph.constant(folded)
        return graph.add(op, *arguments)

    def _chain(self, rows: tuple[str, ...]) -> int:
        """`a < b <= c` is `a < b and b <= c`."""
        operands = self._take(len(rows) + 1)
        tests = [self.graph.add(row, a, b) for row, a, b in zip(rows, operands, operands[1:], strict=False)]
        result = tests[0]
        for test in tests[1:]:
            result = self.graph.add("and", result, test)
        return result

    def _list(self, count: int, place: Place) -> int:
        items = self._take(count)
        if not constant(self.graph, items):
            raise self.scope.fail("a list holds numbers only", place, "write the numbers: `x = [1, 2.5, 4]`")
        return self.graph.literal(items)

    # Calls.

    def _call(self, name: str, count: int, place: Place, token: int) -> bool:
        """Whether a function of the file is called, whose body has to run now; its name is that token."""
        scope = self.scope
        if name == "d":
            self.stack.append(self._derivative(self._take(count), place))
            return False
        function = scope.functions.get(name)
        if function is not None:
            return self._inline(function, count, place)
        if name in scope.broken:
            raise Stop
        row = self.rows.get((name, count))
        if row is None:
            expression = self.frames[-1].expression
            start = expression.starts[token]
            row = self._row(name, count, place, (start, start + expression.tokens[token][2]))
        arguments = self._take(count)
        if row == "where" and self.graph.ops[arguments[0]] not in BOOLEAN:
            arguments[0] = self.graph.add("ne", arguments[0], self.graph.constant(0.0))
        self.stack.append(self.graph.add(row, *arguments))
        return False

    def _row(self, name: str, count: int, place: Place, name_place: Place) -> str:
        """The row of the table that a call means, where no function of the file is meant."""
        scope = self.scope
        if name in scope.function_lines and name not in scope.rows:
            line = scope.model.span(*scope.function_lines[name]).line
            fact = f"function {shown(name)} is called above its definition on line {line}"
            raise scope.fail(fact, name_place, f"move the definition of {shown(name)} up")
        row = self.rows[name, count] = row_for(scope, name, count, place, name_place)
        return row

    def _inline(self, function: Function, count: int, place: Place) -> bool:
        name, parameters = function.name, function.parameters
        if count != len(parameters):
            fact = f"{shown(name)} takes {counted(len(parameters))}, got {count}"
            raise self.scope.fail(fact, place, f"it is defined as `{name}({', '.join(parameters)})`")
        if name in self.running:
            raise self.scope.fail(f"function {shown(name)} calls itself through other functions", place, _RECURSION)
        arguments = self._take(count)
        body = function.expression
        if any(kind == "call" and body.tokens[body.at + token][1] == "d" for kind, _, token, _, _ in body.form):
            arguments = [self._named(a, p) for a, p in zip(arguments, parameters, strict=True)]
        key = (id(function), self.scope.version, *arguments)
        known = self.memo.get(key)
        if known is not None:
            self.stack.append(known)
            return False
        self.running.add(name)
        values = dict(zip(parameters, arguments, strict=True))
        self.frames.append(_Frame(body, iter(body.form), values, function, key))
        return True

    def _named(self, node: int, label: str) -> int:
        """An argument that a body differentiates by must be a name of its own."""
        if self.graph.ops[node] in ("leaf", "name"):
            return node
        key = ("named", node, label)
        if key not in self.memo:
            self.memo[key] = self.graph.name(node, label)
        return self.memo[key]

    def _derivative(self, arguments: list[int], place: Place) -> int:
        if len(arguments) < 2:
            fact = f"`d` takes a function and at least one name, got {counted(len(arguments))}"
            raise self.scope.fail(fact, place, "write `d(f, x)` for the derivative of f by x")
        result, *names = arguments
        for by in names:
            if self.graph.ops[by] not in ("leaf", "name"):
                remedy = "give the expression a name on a line above, then write `d(f, name)`"
                raise self.scope.fail("`d` differentiates by a name", place, remedy)
            result = self.graph.add("d", result, by)
        return result

    def check_body(self, function: Function) -> None:
        """Errors that a body has whatever it is called with: unknown functions, wrong numbers of arguments."""
        scope = self.scope
        for kind, value, start, end in function.expression.code:
            if kind == "call":
                name, count, first, last = value
                if name == function.name:
                    raise scope.fail(f"function {shown(name)} calls itself", (first, last), _RECURSION)
                if name != "d" and name not in scope.function_lines and name not in scope.broken:
                    row_for(scope, name, count, (start, end), (first, last))


def canonical(text: str) -> str:
    """The decimal as a key: `2`, `2.` and `2.0` are one constant."""
    if text[-1] in _ONE_TO_NINE and (text[0] in _ONE_TO_NINE or text[:2] == "0.") and "E" not in text:
        return text
    text = text.lower().lstrip("0") or "0"
    if "e" not in text and "." in text:
        text = text.rstrip("0").rstrip(".")
    if not text or text[0] in ".e":
        text = "0" + text
    return text


def fold(op: str, numbers: Iterable[float]) -> float | None:
    """The result of exact arithmetic on short binary fractions, or None where it would not be exact."""
    a, *rest = numbers
    if op == "neg":
        return -a if a else None
    b = rest[0]
    if op == "div":
        result = a / b if b else None
        return result if result is not None and is_simple(result) and result * b == a else None
    result = a + b if op == "add" else a - b if op == "sub" else a * b
    return result if is_simple(result) else None


def constant(graph: Graph, nodes: Iterable[int]) -> bool:
    """Whether nothing but numbers feeds the nodes."""
    todo, seen = list(nodes), set()
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            if graph.ops[node] in ("leaf", "name", "d"):
                return False
            todo.extend(graph.arguments(node))
    return True
