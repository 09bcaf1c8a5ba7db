"""Tokens to postfix code, by operator precedence with explicit stacks: depth costs memory, never recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from gradcli.errors import did_you_mean
from gradcli.language.lexer import Token, explain, quoted
from gradcli.language.syntax import Expression, Step

WORDS = ("const", "retain", "output", "domain", "claim", "expect")

_COMPARISON, _NOT, _UNARY = 4, 3, 7
# Per operator: reduce what binds at least this tightly first; then its own binding; then its row.
_ARITHMETIC = {
    "+": (5, 5, "add"),
    "-": (5, 5, "sub"),
    "*": (6, 6, "mul"),
    "/": (6, 6, "div"),
    "//": (6, 6, "floordiv"),
    "%": (6, 6, "mod"),
    "^": (9, 8, "pow"),  # right-associative: another power waits
    "**": (9, 8, "pow"),
}
_LOGIC = {"or": 1, "and": 2}
_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}

Frame: TypeAlias = tuple[int, Any, int]
"""`(binding, row, first)` of an operator that waits for its right operand: the token its left one begins with; the row
of a chain is the list of its rows."""

_FLOOR: Frame = (-1, None, 0)  # nothing reduces past an open bracket
_OPERAND, _OPERATOR, _DONE = range(3)
_CLOSERS = {"call": ")", "group": ")", "list": "]"}
_CMD = "in cmd.exe an unquoted `^` gets lost: quote it, or write `**`, which works as well"
_FUNCTION = "a function is a statement of its own: `f(x) = ...`"
_CHOICE = "a choice is written `where(condition, a, b)`"


class ParseError(Exception):
    """The statement cannot be read on; `index` is the token where that shows."""

    def __init__(self, message: str, start: int, end: int, index: int, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.index, self.help = message, start, end, index, help


class Tokens:
    """The tokens of a text, with what every reader of them asks."""

    __slots__ = ("starts", "text", "tokens")

    def __init__(self, text: str, tokens: list[Token], starts: Sequence[int]) -> None:
        self.text, self.tokens, self.starts = text, tokens, starts

    def kind(self, i: int) -> str:
        return self.tokens[i][0]

    def value(self, i: int) -> str:
        return self.tokens[i][1]

    def end(self, i: int) -> int:
        return self.starts[i] + self.tokens[i][2]

    def written(self, i: int) -> str:
        return self.text[self.starts[i] : self.end(i)]

    def is_word(self, i: int, word: str) -> bool:
        """Whether the token is this word without backquotes."""
        return self.tokens[i][:2] == ("name", word) and self.text[self.starts[i]] != "`"

    def ends_statement(self, i: int) -> bool:
        return self.tokens[i][0] in ("newline", ";", "end")

    def head_end(self, i: int) -> int | None:
        """The index of the `=` when `name(a, b) =` starts here."""
        if self.kind(i) != "name" or self.kind(i + 1) != "(":
            return None
        i, wanted = i + 2, "name"
        while (kind := self.kind(i)) != ")" or (wanted == "name" and self.kind(i - 1) == ","):
            if kind == wanted:
                wanted = "," if wanted == "name" else "name"
            elif kind != "newline":
                return None
            i += 1
        return i + 1 if self.kind(i + 1) == "=" else None

    def begins_statement(self, i: int) -> bool:
        """Whether a line that starts here can only be a statement of its own, even inside an open bracket."""
        if self.kind(i) != "name":
            return False
        after = self.kind(i + 1)
        if after == "=":
            return True
        if after in ("name", "number"):
            return self.value(i) in WORDS and self.is_word(i, self.value(i))
        return self.head_end(i) is not None

    def fault(self, message: str, i: int, help: str | None = None) -> ParseError:
        """A fault at one token."""
        return ParseError(message, self.starts[i], self.end(i), i, help)

    def unexpected(self, i: int) -> ParseError:
        """What to say of a token that fits nowhere; a bad one explains itself."""
        kind = self.kind(i)
        if kind == "bad":
            problem = explain(self.written(i))
            start = self.starts[i] + problem.offset
            return ParseError(problem.message, start, start + problem.width, i, problem.help)
        help = None
        if i and self.is_word(i - 1, "lambda"):
            help = _FUNCTION
        elif kind == "@":
            help = "`x@1`, an earlier definition, is for `output` and for flags"
        elif kind == ":":
            help = "only `claim NAME: ...` has a colon; a name with other characters goes in backquotes"
        return self.fault(f"unexpected {quoted(self.written(i))}", i, help)


class ExpressionReader:
    """Reads one expression; a new one for each, so that its stacks say where it stood when it failed."""

    def __init__(self, tokens: Tokens, functions: frozenset[str], stops: tuple[str, ...] = ()) -> None:
        self.at, self.tokens, self.starts = tokens, tokens.tokens, tokens.starts
        self.functions = functions
        self.stops = stops
        self.code: list[Step] = []
        self.pending: list[Frame] = [_FLOOR]
        self.brackets: list[tuple[str, int]] = []  # kind, index of the opening token
        self.counts: list[int] = []  # arguments begun in each bracket
        self.open_lists = 0

    def read(self, i: int) -> tuple[Expression, int]:
        """The expression from token `i`, and the index of the token behind it: `=`, a stop word, or a statement end."""
        tokens, code, pending = self.tokens, self.code, self.pending
        append, push, pop = code.append, pending.append, pending.pop
        begin = i
        while True:
            kind = tokens[i][0]
            if kind == "number" or (kind == "name" and tokens[i + 1][0] != "("):
                append((kind, None, i, i, i))
                i += 1
            else:
                i, state = self._open(i)
                if state == _OPERAND:
                    continue
            while True:
                kind, value, _, _ = tokens[i]
                if kind == "op":
                    threshold, binding, row = _ARITHMETIC[value]
                    while pending[-1][0] >= threshold:
                        _, done, left = pop()
                        append(("op", done, left, left, code[-1][4]))
                    push((binding, row, code[-1][3]))
                    i += 1
                    break
                i, state = self._behind[kind](self, i)
                if state == _OPERAND:
                    break
                if state == _DONE:
                    self._reduce(0)
                    starts = self.starts
                    return Expression(code, tokens, starts, 0, starts[begin], self.at.end(code[-1][4])), i

    def _reduce(self, threshold: int) -> None:
        """Emit every waiting operator that binds at least so tightly."""
        code, pending = self.code, self.pending
        while pending[-1][0] >= threshold:
            binding, row, left = pending.pop()
            if binding == _COMPARISON:
                code.append(("chain", tuple(row), left, left, code[-1][4]))
            else:
                code.append(("op", row, left, left, code[-1][4]))

    # Where an operand must come.

    def _open(self, i: int) -> tuple[int, int]:
        """What may stand before an operand: signs, `not`, opening brackets, line breaks inside brackets."""
        at = self.at
        kind, value, _, _ = self.tokens[i]
        if kind == "name":
            self._bracket("call", i + 1)
            return i + 2, _OPERAND
        if kind in ("(", "["):
            if kind == "[" and self.open_lists:
                raise at.fault("a list inside a list", i, "a list holds numbers: `[1, 2, 3]`")
            self._bracket("group" if kind == "(" else "list", i)
            return i + 1, _OPERAND
        if kind == "op" and value in "+-":
            if value == "-":
                self.pending.append((_UNARY, "neg", i))
            return i + 1, _OPERAND
        if kind == "not":
            if self.pending[-1][0] > _NOT:
                raise at.fault("`not` binds more loosely than the operator before it", i, "write `(not ...)`")
            self.pending.append((_NOT, "not", i))
            return i + 1, _OPERAND
        if kind == "newline" and self.brackets and not at.begins_statement(i + 1):
            return i + 1, _OPERAND
        if kind == ")" and self.brackets and self.brackets[-1] == ("call", self._last_written(i)):
            self.counts[-1] = 0
            return self._close(i)
        raise self._missing_operand(i)

    def _bracket(self, kind: str, i: int) -> None:
        self.brackets.append((kind, i))
        self.counts.append(1)
        self.pending.append(_FLOOR)
        self.open_lists += kind == "list"

    def _last_written(self, i: int) -> int:
        """The index of the last token before `i` that is no line break."""
        i -= 1
        while i > 0 and self.at.kind(i) == "newline":
            i -= 1
        return i

    # Where an operator must come.

    def _close(self, i: int) -> tuple[int, int]:
        closer = self.tokens[i][0]
        if not self.brackets:
            raise self.at.fault(f"closing {quoted(closer)} without an opening one", i, "remove it")
        kind, opening = self.brackets[-1]
        if closer != _CLOSERS[kind]:
            message = f"{quoted(closer)} closes a bracket opened with {quoted(self.at.kind(opening))}"
            raise self.at.fault(message, i, f"write `{_CLOSERS[kind]}`")
        if self.counts[-1] and self.pending[-1] is not _FLOOR:
            self._reduce(0)
        self.brackets.pop()
        self.pending.pop()
        count = self.counts.pop()
        if kind == "group":  # the brackets belong to the operand: `(a+b)*c` starts at its bracket
            inner, value, token, _, _ = self.code[-1]
            self.code[-1] = (inner, value, token, opening, i)
        elif kind == "list":
            self.code.append(("list", count, opening, opening, i))
            self.open_lists -= 1
        else:
            self.code.append(("call", count, opening - 1, opening - 1, i))
        return i + 1, _OPERATOR

    def _comma(self, i: int) -> tuple[int, int]:
        if not self.brackets:
            raise self.at.fault("unexpected `,`", i, "one expression is one statement: separate them by `;`")
        if self.brackets[-1][0] == "group":
            raise self.at.fault("`,` in brackets that are no call", i, "a list is written `[a, b]`")
        self._reduce(0)
        self.counts[-1] += 1
        return i + 1, _OPERAND

    def _line_break(self, i: int) -> tuple[int, int]:
        if not self.brackets:
            return i, _DONE
        if self.at.begins_statement(i + 1):
            raise self._unclosed(i)
        return i + 1, _OPERATOR

    def _ending(self, i: int) -> tuple[int, int]:
        if self.brackets:
            raise self._unclosed(i)
        return i, _DONE

    def _compare(self, i: int) -> tuple[int, int]:
        self._reduce(_COMPARISON + 1)
        row = _COMPARE[self.at.value(i)]
        if self.pending[-1][0] == _COMPARISON:
            self.pending[-1][1].append(row)
        else:
            self.pending.append((_COMPARISON, [row], self.code[-1][3]))
        return i + 1, _OPERAND

    def _logic(self, i: int) -> tuple[int, int]:
        word = self.at.value(i)
        binding = _LOGIC[word]
        self._reduce(binding)
        self.pending.append((binding, word, self.code[-1][3]))
        return i + 1, _OPERAND

    def _equals(self, i: int) -> tuple[int, int]:
        if self.brackets:
            raise self.at.fault("`=` inside an expression", i, "write `==` to compare")
        return i, _DONE

    def _second_operand(self, i: int) -> tuple[int, int]:
        if not self.brackets and any(self.at.is_word(i, stop) for stop in self.stops):
            return i, _DONE
        raise self._side_by_side(i)

    def _foreign(self, i: int) -> tuple[int, int]:
        raise self.at.unexpected(i)

    _behind: ClassVar[dict[str, Callable[[ExpressionReader, int], tuple[int, int]]]] = {
        **dict.fromkeys((")", "]"), _close),
        **dict.fromkeys((";", "end"), _ending),
        **dict.fromkeys(("name", "number", "(", "[", "not"), _second_operand),
        **dict.fromkeys((":", "@", "bad"), _foreign),
        "newline": _line_break,
        ",": _comma,
        "compare": _compare,
        "logic": _logic,
        "=": _equals,
    }

    # What went wrong.

    def _unclosed(self, i: int) -> ParseError:
        opening = self.brackets[-1][1]
        fault = self._never_closed(opening)
        fault.index = i
        return fault

    def _never_closed(self, opening: int) -> ParseError:
        kind = self.at.kind(opening)
        closer = ")" if kind == "(" else "]"
        return self.at.fault(f"{quoted(kind)} is never closed", opening, f"close it with `{closer}`")

    def unclosed(self, depth: int, i: int) -> ParseError | None:
        """The fault of an open bracket, the `depth`-th, that spoiled a later line, seen from token `i`."""
        opening = self.brackets[depth - 1][1]
        if not any(self.at.kind(k) == "newline" for k in range(opening, i)):
            return None
        return self._never_closed(opening)

    def _missing_operand(self, i: int) -> ParseError:
        at = self.at
        kind = at.kind(i)
        last = self._last_written(i)
        before = quoted(at.written(last)) if i else ""
        if kind in ("bad", "@", ":"):
            return at.unexpected(i)
        if at.ends_statement(i):
            if self.brackets and at.kind(last) in ("(", "[", ","):
                return self._unclosed(i)
            end = at.end(last) if i else at.starts[i]
            more = "write an operand behind it"
            if kind == "newline":
                more = "brackets or a trailing backslash carry it on to the next line"
            return ParseError(f"the expression ended after {before}" if i else "empty expression", end, end, i, more)
        if kind in (")", "]"):
            return self._missing_before_closer(i, last)
        if kind == "," and at.kind(last) in ("(", ","):
            return at.fault("an argument is missing before `,`", i, "write one, or remove `,`")
        here = quoted(at.written(i))
        if i and at.kind(last) in ("op", "compare", "logic", "not", "="):
            return at.fault(f"an operand is missing between {before} and {here}", i, f"write one, or remove {here}")
        return at.fault(f"an operand is missing before {here}", i, f"write one, or remove {here}")

    def _missing_before_closer(self, i: int, last: int) -> ParseError:
        at = self.at
        if not self.brackets:
            return at.fault(f"closing {quoted(at.kind(i))} without an opening one", i, "remove it")
        if at.kind(last) == ",":
            return at.fault("nothing behind the last `,`", last, "remove it")
        bracket, opening = self.brackets[-1]
        if last == opening and at.kind(i) == _CLOSERS[bracket]:
            empty = "empty list" if bracket == "list" else "empty brackets"
            more = "a list has one number or more: `[1, 2]`" if bracket == "list" else "write an operand between them"
            return ParseError(empty, at.starts[opening], at.end(i), i, more)
        return at.fault(f"the expression ended after {quoted(at.written(last))}", i, "write an operand behind it")

    def _side_by_side(self, i: int) -> ParseError:
        """Two operands without an operator between them: spell out what may be meant."""
        at = self.at
        kind, _, token, first, end = self.code[-1]
        left_value = at.value(token)
        left = at.text[at.starts[first] : at.end(end)]
        left = left if len(left) <= 30 and left.isprintable() else "(...)"
        right = self._operand_text(i)
        last = self._last_written(i)
        help = f"write `{left}*{right}`"
        if any(at.is_word(i, word) for word in ("if", "else", "for", "in", "is")):
            help = _CHOICE if at.value(i) == "if" else f"`{at.value(i)}` is no word of the language"
        elif kind == "name" and at.kind(i) == "[":
            help = "a name has no parts: rows are chosen with `where`"
        elif kind == "name" and left_value == "lambda":
            help = _FUNCTION
        elif any(at.is_word(k, at.value(k)) and at.value(k).lower() in ("and", "or", "not") for k in (last, i)):
            help = "`and`, `or`, `not` are written in small letters"
        elif kind == "name" and left_value in self.functions:
            help = f"write `{left}({right})`"
        elif kind == "name" and at.kind(i) == "name" and (i == 1 or at.ends_statement(i - 2)):
            help = did_you_mean(left, WORDS) or help
        elif at.kind(i) == "number":
            help = f"{help}; {_CMD}"
        return at.fault(f"missing operator between {quoted(left)} and {quoted(right)}", i, help)

    def _operand_text(self, i: int) -> str:
        """The operand from token `i`, brackets included, shortened when it is long."""
        at = self.at
        last, depth = i, 0
        if at.kind(i) == "name" and at.kind(i + 1) == "(":
            last += 1
        for k in range(last, min(last + 20, len(at.tokens))):
            depth += (at.kind(k) in "([") - (at.kind(k) in ")]")
            if depth <= 0:
                text = at.text[at.starts[i] : at.end(k)]
                return text if len(text) <= 30 and text.isprintable() else "(...)"
        return "(...)" if at.kind(i) != "name" else f"{at.written(i)}(...)"
