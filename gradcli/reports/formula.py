"""A node as an expression of the language itself, so that what is printed can be read again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gradcli.graph import Graph
from gradcli.primitives import CONSTANTS, callable_rows
from gradcli.reports.sheet import Sheet
from gradcli.reports.writer import ATOM, INFIX, Spelled, call, infix, write

_PLAIN = re.compile(r"[^\W\d]\w*")
_RESERVED = frozenset(("and", "or", "not"))
_STATEMENTS = frozenset(("const", "retain", "output", "domain", "claim", "expect"))
_NUMBERS = {"pi": "3.141592653589793", "tau": "6.283185307179586", "e": "2.718281828459045", "inf": "1e999"}
_OVER_ROWS = {"gather": "sum", "min_rows": "min", "max_rows": "max", "prod_rows": "prod", "logsumexp_rows": "logsumexp"}


def formula(graph: Graph, node: int) -> str:
    """The text of a node of any graph, simplified as a person would write it."""
    from gradcli.calculus.tidy import PLAIN, tidy

    try:
        tidied = tidy(graph, [node])
    except OverflowError:
        tidied = tidy(graph, [node], PLAIN)
    return write(tidied.graph, tidied.roots[0], Text())


def quoted(label: str) -> str:
    """A name as the language writes it: in backquotes where it is no plain identifier, or would be taken for a word."""
    plain = _PLAIN.fullmatch(label) and label not in _RESERVED and label not in _STATEMENTS
    return label if plain else f"`{label}`"


class Text:
    """Spell nodes in the language. `lists`: how columns of constants are written, by the label of their leaf; `taken`:
    names of the model, since a name of the user's wins over a constant."""

    def __init__(self, lists: Mapping[str, str] | None = None, taken: frozenset[str] = frozenset()) -> None:
        self.lists = lists or {}
        self.taken = taken
        self.rows = callable_rows()

    def name(self, label: str) -> str:
        return self.lists[label] if label in self.lists else quoted(label)

    def __call__(self, graph: Graph, node: int) -> Spelled:
        op = graph.ops[node]
        if op in ("leaf", "name"):
            return [self.name(graph.labels[node])], ATOM
        if op == "constant":
            return self.number(graph.numbers[node][1])
        arguments = graph.arguments(node)
        if op in INFIX:
            return infix(graph, node)
        if op == "pow":
            return [(arguments[0], 9), "^", (arguments[1], 8)], 8
        if op == "neg":
            product = graph.ops[arguments[0]] in ("mul", "div")
            return ["-", (arguments[0], 6 if product else 7)], 6 if product else 7
        if op == "not":
            return ["not ", (arguments[0], 4)], 3
        if op == "rows" and "rows" not in self.rows:
            return ["sum(", (arguments[0], 9), "^0)"], ATOM
        return call(_OVER_ROWS.get(op, op), arguments)

    def number(self, text: str) -> Spelled:
        text = _NUMBERS[text] if text in self.taken and text in _NUMBERS else text
        return [text], 7 if text.startswith("-") else ATOM


def speller(sheet: Sheet) -> Text:
    return Text(sheet.lists, sheet.taken)


def render(sheet: Sheet) -> str:
    """A model: definitions, then a line a result; a single result is a bare expression."""
    spell = speller(sheet)
    names = {node: spell.name(label) for node, label in sheet.names.items()}
    used = [label for label in sheet.used() if label in CONSTANTS]
    lines = [f"{label} = {sheet.defaults[label]}" if label in sheet.defaults else f"const {label}" for label in used]
    lines += [f"{quoted(line.label)} = {write(sheet.graph, line.node, spell, names)}" for line in sheet.definitions]
    if len(sheet.results) == 1:
        node = sheet.results[0].node
        return "\n".join([*lines, names[node] if node in names else write(sheet.graph, node, spell, names)])
    for line in sheet.results:
        text = names.get(line.node) or write(sheet.graph, line.node, spell, names)
        lines.append(f"{quoted(line.label)} = {text}")
    return "\n".join(lines)
