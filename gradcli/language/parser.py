"""Tokens to statements. All errors of a text are found in one run, one for each statement at the most.

A statement that fails is skipped to its end. A bracket that is never closed does not swallow the rest of the file:
a later line that can only begin a statement ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradcli.errors import Diagnostic
from gradcli.language.expressions import WORDS, ExpressionReader, ParseError, Tokens
from gradcli.language.lexer import quoted, tokenize
from gradcli.language.syntax import (
    Bare,
    Claim,
    Const,
    Definition,
    Domain,
    Expect,
    Expression,
    File,
    Function,
    NameRef,
    Output,
    Retain,
    Statement,
    Tolerance,
)
from gradcli.source import Source, Span

if TYPE_CHECKING:
    from gradcli.language.alike import Run

_MANY = 200  # lines from which on those that are written alike are looked for
_NAMES_FOLLOW = ("const", "retain", "output")


def parse(source: Source, functions: frozenset[str] = frozenset()) -> tuple[File, list[Diagnostic]]:
    """Parse a whole source; `functions` are the known function names, which only help to phrase errors."""
    return _Parser(source, functions).file()


def parse_expression(
    source: Source, functions: frozenset[str] = frozenset()
) -> tuple[Expression | None, list[Diagnostic]]:
    """Parse a text that is one expression, such as the VALUE of a binding."""
    return _Parser(source, functions).lone_expression()


class _Parser:
    def __init__(self, source: Source, functions: frozenset[str]) -> None:
        self.source = source
        self.functions = functions
        self.at = Tokens(source.text, [], [])
        self.reader = ExpressionReader(self.at, functions)
        self.broken: set[str] = set()
        self.diagnostics: list[Diagnostic] = []
        self.defining: str | None = None
        self.bare: Expression | None = None  # the last bare expression, while nothing was computed behind it

    def file(self) -> tuple[File, list[Diagnostic]]:
        text = self.source.text
        blocks: list[tuple[Statement, ...] | Run] = []
        if text.count("\n") < _MANY:
            blocks.append(self._statements(0, len(text)))
        else:
            from gradcli.language.alike import stretches  # not for short texts

            for stretch in stretches(text):
                if isinstance(stretch, tuple):
                    blocks.append(self._statements(*stretch))
                else:
                    self._computed_at(stretch.start)
                    blocks.append(stretch)
        self.diagnostics.sort(key=lambda d: d.span.start if d.span else 0)
        return File(tuple(blocks), frozenset(self.broken)), self.diagnostics

    def _statements(self, first: int, last: int) -> tuple[Statement, ...]:
        """Those of some lines of the text."""
        at = self._tokens(first, last)
        idle = self.reader
        statements: list[Statement] = []
        i = 0
        while at.kind(i) != "end":
            if at.ends_statement(i):
                i += 1
                continue
            if self._computes(i):
                self._computed_at(at.starts[i])
            self.defining = None
            self.reader = idle
            try:
                statement, i = self._statement(i)
            except ParseError as fault:
                i = self._recover(fault)
            else:
                statements.append(statement)
                if isinstance(statement, Bare):
                    self.bare = statement.expression
        return tuple(statements)

    def _tokens(self, first: int, last: int) -> Tokens:
        """What is read next: the tokens between two places."""
        text = self.source.text
        self.at = Tokens(text, *tokenize(text, first, last))
        self.reader = ExpressionReader(self.at, self.functions)
        return self.at

    def _computed_at(self, offset: int) -> None:
        """Something is computed there: an expression without a name above it, in the same part, has no effect."""
        if self.bare is not None and self.source.part_of(self.bare.start) == self.source.part_of(offset):
            self._report_early(self.bare)
        self.bare = None

    def lone_expression(self) -> tuple[Expression | None, list[Diagnostic]]:
        at = self._tokens(0, len(self.source.text))
        i = 1 if at.kind(0) == "newline" else 0
        try:
            if at.kind(i) == "end":
                raise at.fault("empty expression", i)
            expression, i = self._expression(i)
            while at.kind(i) == "newline":
                i += 1
            if at.kind(i) != "end":
                help = "write `==` to compare" if at.kind(i) == "=" else None
                raise at.fault(f"one expression is wanted here, but {quoted(at.written(i))} follows", i, help)
        except ParseError as fault:
            self._recover(fault)
            return None, self.diagnostics
        return expression, self.diagnostics

    # Errors.

    def _recover(self, fault: ParseError) -> int:
        """Report the fault, note the name it spoiled, and find the end of its statement."""
        if self.defining is not None:
            self.broken.add(self.defining)
        at = self.at
        depth = lowest = len(self.reader.brackets)
        i = fault.index
        while (kind := at.kind(i)) != "end" and kind != ";":
            if kind in ("(", "["):
                depth += 1
            elif kind in (")", "]"):
                depth = max(0, depth - 1)
                lowest = min(lowest, depth)
            elif kind == "newline" and (depth == 0 or at.begins_statement(i + 1)):
                break
            i += 1
        if lowest > 0:  # a bracket left open in an earlier line is the cause of what was seen in this one
            fault = self.reader.unclosed(lowest, fault.index) or fault
        span = Span(self.source, fault.start, fault.end)
        self.diagnostics.append(Diagnostic(fault.message, span, fault.help))
        return i

    def _report_early(self, bare: Expression) -> None:
        message = "an expression without a name, and not the last one, has no effect"
        span = Span(self.source, bare.start, bare.end)
        self.diagnostics.append(Diagnostic(message, span, "name it: `y = ...`"))

    # Statements.

    def _computes(self, i: int) -> bool:
        """Whether a definition or a bare expression starts here: no function, no statement word."""
        if self.at.kind(i + 1) == "=":
            return True
        return not (self._starts_with_word(i) or self.at.head_end(i) is not None)

    def _starts_with_word(self, i: int) -> bool:
        """Whether the statement from token `i` is one of the six, and not a use of the word as a name."""
        at = self.at
        word = at.value(i)
        if word not in WORDS or not at.is_word(i, word):
            return False
        kind = at.kind(i + 1)
        if kind == "(":
            return at.starts[i + 1] != at.end(i) or at.head_end(i) is None
        if kind in ("name", "number", "["):
            return True
        if word in _NAMES_FOLLOW:
            return False
        return kind == "not" or (kind == ":" and word == "claim") or at.written(i + 1) in ("+", "-")

    def _statement(self, i: int) -> tuple[Statement, int]:
        at = self.at
        kind, after = at.kind(i), at.kind(i + 1)
        if kind == "name" and after == "=":
            return self._definition(i)
        if kind in ("logic", "not") and after == "=":
            word = at.value(i)
            help = f"as a name it goes in backquotes: `` `{word}` ``"
            raise at.fault(f"`{word}` is a reserved word", i, help)
        if self._starts_with_word(i):
            return self._worded(i)
        if after == "(" and (equals := at.head_end(i)) is not None:
            return self._function(i, equals)
        return self._bare(i)

    def _definition(self, i: int) -> tuple[Statement, int]:
        at = self.at
        name = self.defining = at.value(i)
        start, end = at.starts[i], at.end(i)
        expression, i = self._sole_expression(i + 2)
        return Definition(name, start, end, expression, start, expression.end), i

    def _function(self, i: int, equals: int) -> tuple[Statement, int]:
        at = self.at
        name = self.defining = at.value(i)
        start, end = at.starts[i], at.end(i)
        where = [k for k in range(i + 2, equals - 1) if at.kind(k) == "name"]
        parameters: dict[str, tuple[int, int]] = {}
        for k in where:
            if at.value(k) in parameters:
                raise self._fault(
                    f"the parameter {quoted(at.value(k))} is there twice", k, "each has a name of its own"
                )
            parameters[at.value(k)] = at.starts[k], at.end(k)
        expression, i = self._sole_expression(equals + 1)
        spans = tuple(parameters.values())
        return Function(name, start, end, tuple(parameters), spans, expression, start, expression.end), i

    def _bare(self, i: int) -> tuple[Statement, int]:
        at = self.at
        first = i
        expression, i = self._expression(i)
        if at.kind(i) != "=":
            return Bare(expression, expression.start, expression.end), i
        kind, value, start, end = expression.code[-1]
        if kind == "call" and (start, end) == (expression.start, expression.end) and at.kind(first) == "name":
            self.defining = value[0]
            raise self._bad_parameter(value[0], first + 2, i)
        swapped = at.written(i + 1) if at.kind(i + 1) == "name" and at.ends_statement(i + 2) else None
        left = at.text[expression.start : expression.end]
        help = f"write `{swapped} = {left}` to define {quoted(swapped)}" if swapped and len(left) <= 30 else None
        message = f"{quoted(left)} is not a name, so `=` cannot define it"
        raise ParseError(message, expression.start, expression.end, i, help or "write `==` to compare")

    def _bad_parameter(self, function: str, i: int, equals: int) -> ParseError:
        """The first token of a parameter list that does not belong there."""
        at = self.at
        wanted = "name"
        while at.kind(i) in (wanted, "newline"):
            if at.kind(i) == wanted:
                wanted = "," if wanted == "name" else "name"
            i += 1
        message = f"the parameters of {quoted(function)} must be names, but {quoted(at.written(i))} is there"
        return ParseError(message, at.starts[i], at.end(i), equals, "write `==` to compare")

    def _worded(self, i: int) -> tuple[Statement, int]:
        word = self.at.value(i)
        if word == "const":
            return self._const(i)
        if word == "domain":
            expression, after = self._sole_expression(i + 1)
            return Domain(expression, self.at.starts[i], expression.end), after
        if word == "claim":
            return self._claim(i)
        if word == "expect":
            return self._expect(i)
        names, after = self._names(i)
        make = Retain if word == "retain" else Output
        return make(names, self.at.starts[i], names[-1].end), after

    def _const(self, i: int) -> tuple[Statement, int]:
        at = self.at
        start, k = at.starts[i], i + 1
        if at.kind(k) != "name":
            raise self._fault("`const` takes a name", k, "write `const g = 9.81`")
        name = self.defining = at.value(k)
        name_start, name_end = at.starts[k], at.end(k)
        if at.kind(k + 1) == "=":
            expression, after = self._sole_expression(k + 2)
            return Const(name, name_start, name_end, expression, start, expression.end), after
        if not at.ends_statement(k + 1):
            help = f"write `const {name[:40]} = ...`"
            if at.kind(k + 1) == ",":
                help = "one name a statement: `const a; const b`"
            raise self._fault(f"expected `=` or the end behind `const {name[:40]}`", k + 1, help)
        return Const(name, name_start, name_end, None, start, name_end), k + 1

    def _names(self, i: int) -> tuple[tuple[NameRef, ...], int]:
        at = self.at
        word = at.value(i)
        names: list[NameRef] = []
        while True:
            i += 1
            if at.kind(i) != "name":
                after = f"`{word}` takes names" if not names else "a name is missing behind the last `,`"
                raise self._fault(after, i, "list names only, separated by commas")
            name, start, end = at.value(i), at.starts[i], at.end(i)
            if at.kind(i + 1) == "@":
                i += 2
                number = at.written(i)
                if not (number.isascii() and number.isdigit() and number.strip("0")):
                    help = "`x@1` is the first definition of `x`"
                    raise self._fault("a whole number from 1 must follow `@`", i, help)
                name, end = f"{name}@{number.lstrip('0')}", at.end(i)
            names.append(NameRef(name, start, end))
            i += 1
            if at.ends_statement(i):
                return tuple(names), i
            if at.kind(i) != ",":
                help = "separate names by commas" if at.kind(i) == "name" else "give the expression a name first"
                raise self._fault(f"`{word}` takes names, but {quoted(at.written(i))} follows", i, help)

    def _claim(self, i: int) -> tuple[Statement, int]:
        at = self.at
        start, name = at.starts[i], None
        i += 1
        if at.kind(i) == ":":
            raise self._fault("the name of the claim is missing", i, "write `claim NAME: a = b`, or leave out the `:`")
        if at.kind(i) == "name" and at.kind(i + 1) == ":":
            name = at.value(i)
            i += 2
        left, i = self._side("claim", i)
        right, i = self._expression(i, ("if",))
        condition = None
        if at.is_word(i, "if"):
            condition, i = self._sole_expression(i + 1)
        self._expect_end(i)
        return Claim(name, left, right, condition, start, (condition or right).end), i

    def _expect(self, i: int) -> tuple[Statement, int]:
        at = self.at
        start = at.starts[i]
        left, i = self._side("expect", i + 1)
        right, i = self._expression(i, ("within", "rounded"))
        signs = [item[1] for item in right.code[1:]]
        text = None
        if right.code[0][0] == "number" and all(sign == "neg" for sign in signs):
            text = "-" * (len(signs) % 2) + right.code[0][1]
        tolerance = Tolerance()
        if at.is_word(i, "rounded"):
            if text is None:
                help = "its last written digit sets the tolerance; otherwise write `within`"
                raise self._fault("`rounded` needs a plain number on the right side", i, help)
            tolerance, i = Tolerance("rounded"), i + 1
        elif at.is_word(i, "within"):
            tolerance, i = self._within(i + 1)
        self._expect_end(i)
        return Expect(left, right, text, tolerance, start, at.end(i - 1)), i

    def _within(self, i: int) -> tuple[Tolerance, int]:
        at = self.at
        if at.kind(i) != "number":
            raise self._fault("a number must follow `within`", i, "write `within 1e-6` or `within 5%`")
        if at.written(i + 1) == "%":
            return Tolerance("percent", at.value(i)), i + 2
        return Tolerance("absolute", at.value(i)), i + 1

    # Expressions.

    def _expression(self, i: int, stops: tuple[str, ...] = ()) -> tuple[Expression, int]:
        self.reader = ExpressionReader(self.at, self.functions, stops)
        return self.reader.read(i)

    def _sole_expression(self, i: int) -> tuple[Expression, int]:
        expression, i = self._expression(i)
        self._expect_end(i)
        return expression, i

    def _side(self, word: str, i: int) -> tuple[Expression, int]:
        """The left side of a claim or an expectation; the index returned is behind its `=`."""
        left, i = self._expression(i)
        if self.at.kind(i) == "=":
            return left, i + 1
        compared = left.code[-1][:2] == ("chain", ("eq",))
        help = "write a single `=` between the two sides" if compared else f"write `{word} a = b`"
        raise ParseError(f"`{word}` needs `=` and a right side", left.end, left.end, i, help)

    def _expect_end(self, i: int) -> None:
        if not self.at.ends_statement(i):
            help = "write `==` to compare" if self.at.kind(i) == "=" else "begin a new line, or put `;` before it"
            raise self._fault(f"the statement is complete, but {quoted(self.at.written(i))} follows", i, help)

    def _fault(self, message: str, i: int, help: str | None = None) -> ParseError:
        """A fault outside any expression; a bad token explains itself, a missing one is marked behind the last."""
        if self.at.kind(i) == "bad":
            return self.at.unexpected(i)
        if self.at.ends_statement(i):
            end = self.at.end(i - 1)
            return ParseError(message, end, end, i, help)
        return self.at.fault(message, i, help)
