"""Lines that are written alike: only their names and numbers differ.

How a definition is read depends on the kinds of its tokens and on its operators, not on its names and numbers. So one
of many lines that are written alike is parsed, and stands for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from gradcli.language.expressions import ExpressionReader, ParseError, Tokens
from gradcli.language.lexer import Token, is_decimal, tokenize
from gradcli.language.syntax import UNARY, Definition, Expression, Form, Step
from gradcli.primitives import BOOLEAN

# A name, a number, or what is neither and makes its line no matter for this module.
WORD = re.compile(r"([A-Za-z0-9_.]+(?:(?<=[0-9.][eE])[+-][0-9]+)?)")
ANY, NAME, NUMBER, _WORDS, _NEITHER = 0, 1, 2, {"and": 3, "or": 4, "not": 5}, 9
_OF_WORDS = ("name", "number", "logic", "not")  # kinds of tokens
_LONGEST = 100  # steps of an expression
_OPERANDS = 4  # of an operation, at the most

Anchor: TypeAlias = tuple[int, int]
"""A place in any line of a template: so many characters behind the end of that word."""

Operand: TypeAlias = tuple[str, int]
"""`("word", slot)`, `("constant", number)` or `("operation", number)`."""


class Operation(NamedTuple):
    """A row of the table, or the function that is the word at `slot` (-1: none).

    `level` is 0 for a number with a sign, else one more than the highest of its operands. `folded`: the constant that
    is there instead of a sign where the number is a simple one. `chooses`: the first operand is a condition.
    """

    row: str
    slot: int
    operands: tuple[Operand, ...]
    level: int
    start: Anchor
    end: Anchor
    folded: int = -1
    chooses: bool = False


class ConstantStep(NamedTuple):
    """The number at `slot`, or an operation (slot -1) on what comes before it."""

    row: str
    slot: int
    start: Anchor
    end: Anchor


class Constant(NamedTuple):
    """Steps over nothing but numbers, in postfix order."""

    steps: tuple[ConstantStep, ...]

    @property
    def slots(self) -> list[int]:
        """Its numbers."""
        return [step.slot for step in self.steps if step.slot >= 0]

    @property
    def is_sign(self) -> bool:
        """Whether it is a number with a sign and no more."""
        return len(self.steps) == 2 and self.steps[1].row == "neg"


class Template(NamedTuple):
    """A definition in which words may be replaced by others of their kinds.

    `gaps`: characters before each word; `kinds`: what each word must be; `places`: where each token starts; `slots`:
    for each token that is a word its number, the number of the word, and what it is. `operations` are what the
    definition computes, the last one its value; there are none where it has to be looked at by itself.
    """

    form: Form
    tokens: tuple[Token, ...]
    gaps: tuple[int, ...]
    kinds: tuple[int, ...]
    places: tuple[Anchor, ...]
    slots: tuple[tuple[int, int, str, str], ...]
    operations: tuple[Operation, ...]
    constants: tuple[Constant, ...]

    def definition(self, words: Sequence[str], start: int) -> Definition:
        """The definition that a line of these words is; the first one starts there."""
        ends, end = [], start - self.gaps[0]
        for gap, word in zip(self.gaps, words, strict=True):
            end += gap + len(word)
            ends.append(end)
        tokens = [*self.tokens]
        for i, slot, kind, form in self.slots:
            word = words[slot]
            tokens[i] = kind, word, len(word), form
        starts = [start, *(ends[word] + more for word, more in self.places[1:])]
        last = self.form[-1][4]
        end = starts[last] + tokens[last][2]
        expression = Expression(self.form, tokens, starts, 0, starts[2], end)
        return Definition(words[0], start, ends[0], expression, start, end)


def kind_of(word: str) -> int:
    """What a word may stand for."""
    if word.isidentifier():
        return _WORDS.get(word, NAME)
    return NUMBER if word.replace(".", "", 1).isdigit() or is_decimal(word) else _NEITHER


def template(line: str) -> Template | None:
    """What a line without its line break is an example of; None where it is no definition."""
    at = Tokens(line, *tokenize(line))
    if at.kind(0) != "name" or at.kind(1) != "=":
        return None
    try:
        expression, behind = ExpressionReader(at, frozenset()).read(2)
    except ParseError:
        return None
    form = expression.form
    if at.kind(behind) == "newline":
        behind += 1
    if at.kind(behind) != "end" or len(form) > _LONGEST:
        return None
    found = [word.span() for word in WORD.finditer(line)]
    slots = _slots(at, found, at.end(form[-1][4]))
    return _Builder(at, form, found, slots).template() if slots else None


def _slots(at: Tokens, found: Sequence[tuple[int, int]], end: int) -> list[int]:
    """The word that each token is, or -1; nothing where words and tokens do not match. Only a comment, behind the end
    of the expression, holds words that are no tokens."""
    starts = {start: slot for slot, (start, _) in enumerate(found)}
    slots: list[int] = []
    for i, (kind, _, width, _) in enumerate(at.tokens):
        slot = starts.pop(at.starts[i], -1) if width else -1
        if (slot >= 0) != (kind in _OF_WORDS) or (slot >= 0 and found[slot][1] != at.end(i)):
            return []
        slots.append(slot)
    return slots if all(start >= end for start in starts) else []


class _Builder:
    """The operations of a template: postfix steps, followed with a stack of operands."""

    def __init__(self, at: Tokens, form: Form, found: Sequence[tuple[int, int]], slots: list[int]) -> None:
        self.at, self.form, self.found, self.slots = at, form, found, slots
        self.operations: list[Operation] = []
        self.constants: list[Constant] = []

    def follow(self) -> None:
        """Collect the operations, unless one of them is too special."""
        stack: list[Operand] = []
        for step in self.form:
            kind, value, token, _, _ = step
            if kind == "name":
                stack.append(("word", self.slots[token]))
                continue
            if kind == "number":
                stack.append(self.constant((), step))
                continue
            count = (
                value if kind in ("call", "list") else len(value) + 1 if kind == "chain" else 1 + (value not in UNARY)
            )
            if kind == "list" or not 0 < count <= _OPERANDS:
                self.operations.clear()
                return
            operands = tuple(stack[-count:])
            del stack[-count:]
            if kind == "op" and all(what == "constant" for what, _ in operands):
                stack.append(self.constant(operands, step))
                continue
            operands = tuple([self.negated(o) for o in operands])
            stack.append(self.chain(operands, step) if kind == "chain" else self.operation(operands, step))
        if not any(what == "word" for operation in self.operations for what, _ in operation.operands):
            self.operations.clear()  # a leaf

    def count(self, kind: str, value: Any) -> int:
        """How many operands a step takes; 0 for a list."""
        if kind in ("call", "list"):
            return value if kind == "call" else 0
        return len(value) + 1 if kind == "chain" else 1 if value in UNARY else 2

    def template(self) -> Template:
        at, found = self.at, self.found
        self.follow()
        kinds = [ANY] * len(found)
        for i, slot in enumerate(self.slots):
            if slot >= 0:
                kinds[slot] = kind_of(at.value(i))
        ends = [0, *(end for _, end in found)]
        gaps = tuple([start - before for before, (start, _) in zip(ends, found, strict=False)])
        places = tuple([self.start(i) for i in range(len(at.tokens))])
        words = [(i, slot, at.kind(i), at.tokens[i][3]) for i, slot in enumerate(self.slots) if slot >= 0]
        return Template(
            self.form, tuple(at.tokens), gaps, tuple(kinds), places, tuple(words),
            tuple(self.operations), tuple(self.constants),
        )  # fmt: skip

    def operation(self, operands: tuple[Operand, ...], step: Step) -> Operand:
        kind, value, token, first, last = step
        level = 1 + max((self.operations[i].level for what, i in operands if what == "operation"), default=0)
        row, slot = ("", self.slots[token]) if kind == "call" else (value, -1)
        what, i = operands[0]
        chooses = what == "operation" and self.operations[i].row in BOOLEAN
        places = self.start(first), self.end(last)
        self.operations.append(Operation(row, slot, operands, level, *places, chooses=chooses))
        return "operation", len(self.operations) - 1

    def chain(self, operands: tuple[Operand, ...], step: Step) -> Operand:
        """`a < b <= c` is `a < b and b <= c`."""
        _, rows, token, first, last = step
        pairs = zip(rows, pairwise(operands), strict=True)
        result, *tests = [self.operation(pair, ("op", row, token, first, last)) for row, pair in pairs]
        for test in tests:
            result = self.operation((result, test), ("op", "and", token, first, last))
        return result

    def constant(self, operands: Iterable[Operand], step: Step) -> Operand:
        """A number, or an operation on constants, whose steps it takes over."""
        kind, value, token, first, last = step
        steps = [s for _, i in operands for s in self.constants[i].steps]
        row, slot = ("", self.slots[token]) if kind == "number" else (value, -1)
        self.constants.append(Constant((*steps, ConstantStep(row, slot, self.start(first), self.end(last)))))
        return "constant", len(self.constants) - 1

    def negated(self, operand: Operand) -> Operand:
        """A number with a sign is an operation, unless something else was done to it: there may be many."""
        what, i = operand
        if what != "constant" or not self.constants[i].is_sign:
            return operand
        steps = self.constants[i].steps
        self.constants.append(Constant(steps[:1]))
        number = ("constant", len(self.constants) - 1)
        self.operations.append(Operation("neg", -1, (number,), 0, steps[1].start, steps[1].end, i))
        return "operation", len(self.operations) - 1

    def start(self, token: int) -> Anchor:
        return self._anchor(self.at.starts[token])

    def end(self, token: int) -> Anchor:
        slot = self.slots[token]
        return (slot, 0) if slot >= 0 else self._anchor(self.at.end(token))

    def _anchor(self, offset: int) -> Anchor:
        """A place that is no end of a word, from the end of the word before it."""
        word = sum(end <= offset for _, end in self.found) - 1
        return word, offset - (self.found[word][1] if word >= 0 else 0)
