"""Expressions of SQL that DuckDB and PostgreSQL read alike: full parentheses, float literals, `case` for choices."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gradcli.errors import GradcliError
from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN
from gradcli.reports.code import number, refuse
from gradcli.reports.sheet import Line, Sheet
from gradcli.reports.writer import ATOM, Piece, Spelled, call, write

_NAMED = {"pi": "pi()", "inf": "cast('infinity' as double precision)", "nan": "cast('nan' as double precision)"}
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "<>",
    "and": "and", "or": "or",
}  # fmt: skip
_SAME = "abs sign floor ceil trunc sqrt cbrt exp sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh"
_PLAIN = {n: n for n in _SAME.split()} | {
    "log": "ln", "deg2rad": "radians", "rad2deg": "degrees", "max": "greatest", "min": "least",
    "pow": "power", "detach": "",
}  # fmt: skip
_WRITTEN = {
    "exp2": "power(2.0, {0})", "exp10": "power(10.0, {0})", "expm1": "(exp({0}) - 1.0)", "log1p": "ln(1.0 + {0})",
    "log2": "(ln({0}) / ln(2.0))", "log10": "(ln({0}) / ln(10.0))", "sec": "(1.0 / cos({0}))",
    "csc": "(1.0 / sin({0}))",
    "cot": "(1.0 / tan({0}))", "sech": "(1.0 / cosh({0}))", "csch": "(1.0 / sinh({0}))", "coth": "(1.0 / tanh({0}))",
    "asec": "acos(1.0 / {0})", "acsc": "asin(1.0 / {0})", "acot": "atan(1.0 / {0})", "asech": "acosh(1.0 / {0})",
    "acsch": "asinh(1.0 / {0})", "acoth": "atanh(1.0 / {0})", "sigmoid": "(1.0 / (1.0 + exp(-{0})))",
    "silu": "({0} / (1.0 + exp(-{0})))", "softplus": "(greatest({0}, 0.0) + ln(1.0 + exp(-abs({0}))))",
    "relu": "greatest({0}, 0.0)", "relu6": "least(greatest({0}, 0.0), 6.0)", "softsign": "({0} / (1.0 + abs({0})))",
    "leaky_relu": "(case when ({0} > 0.0) then {0} else ({0} / 100.0) end)", "logit": "ln({0} / (1.0 - {0}))",
    "elu": "(case when ({0} > 0.0) then {0} else (exp({0}) - 1.0) end)", "step": "((sign({0}) + 1.0) / 2.0)",
    "normpdf": "(exp(-({0} * {0}) / 2.0) / sqrt(2.0 * pi()))", "sinpi": "sin(pi() * {0})", "cospi": "cos(pi() * {0})",
    "hypot": "sqrt(({0} * {0}) + ({1} * {1}))", "floordiv": "floor({0} / {1})",
    "mod": "({0} - ({1} * floor({0} / {1})))",
    "fmod": "({0} - ({1} * trunc({0} / {1})))", "xlogy": "(case when ({0} = 0.0) then 0.0 else ({0} * ln({1})) end)",
    "logaddexp": "(greatest({0}, {1}) + ln(1.0 + exp(-abs({0} - {1}))))",
    "copysign": "(case when ({1} < 0.0) then -abs({0}) else abs({0}) end)",
    "sinc": "(case when ({0} = 0.0) then 1.0 else (sin(pi() * {0}) / (pi() * {0})) end)",
}  # fmt: skip
_KNOWN = frozenset((*_INFIX, *_PLAIN, *_WRITTEN, "leaf", "name", "constant", "neg", "not", "where"))
_RESERVED = (
    "all and any array as asc both case cast check collate column constraint create cross current_date "
    "default deferrable desc distinct do else end except exists false fetch for foreign from full grant "
    "group having ilike in inner intersect into is join leading left like limit natural not null offset "
    "on only or order outer primary references returning right select similar some symmetric table then "
    "to trailing true union unique user using values when where window with"
)
_WORDS = frozenset(_RESERVED.split())
_LOWER = re.compile(r"[a-z_][a-z0-9_]*")


def identifier(label: str) -> str:
    """A column name; in double quotes unless it is a plain word in lower case."""
    plain = _LOWER.fullmatch(label) and label not in _WORDS
    return label if plain else '"' + label.replace('"', '""') + '"'


def spell(graph: Graph, node: int) -> Spelled:
    op, arguments = graph.ops[node], graph.arguments(node)
    if op in ("leaf", "name"):
        return [identifier(graph.labels[node])], ATOM
    if op == "constant":
        text = number(graph.numbers[node][1], _NAMED)
        return [f"({text})" if text.startswith("-") else text], ATOM
    if op in _INFIX:
        operand = _condition if op in ("and", "or") else _number
        return ["(", *operand(graph, arguments[0]), f" {_INFIX[op]} ", *operand(graph, arguments[1]), ")"], ATOM
    if op == "neg":
        return ["(-", *_number(graph, arguments[0]), ")"], ATOM
    if op == "not":
        return ["(not ", *_condition(graph, arguments[0]), ")"], ATOM
    if op == "where":
        condition, a, b = arguments
        taken, other = _number(graph, a), _number(graph, b)
        return ["(case when ", *_condition(graph, condition), " then ", *taken, " else ", *other, " end)"], ATOM
    if op in _WRITTEN:
        pieces: list[Piece] = []
        for part in re.split(r"(\{\d\})", _WRITTEN[op]):
            pieces += _number(graph, arguments[int(part[1])]) if part[:1] == "{" else [part]
        return pieces, ATOM
    return call(_PLAIN[op], arguments)


def _condition(graph: Graph, node: int) -> list[Piece]:
    return [(node, 0)] if graph.ops[node] in BOOLEAN else ["(", (node, 0), " <> 0.0)"]


def _number(graph: Graph, node: int) -> list[Piece]:
    """An operand; a condition as 1 or 0."""
    return ["(case when ", (node, 0), " then 1.0 else 0.0 end)"] if graph.ops[node] in BOOLEAN else [(node, 0)]


def render(sheet: Sheet) -> str:
    """One result is an expression, several are a select list; definitions become steps over a table `data`."""
    refuse(sheet, _KNOWN, "SQL", "print it as text, python or c, or ask for another derivative")
    if sheet.lists:
        raise GradcliError.of("SQL has no lists of numbers", help="make the list a column of the table: give it a name")
    names = {node: identifier(label) for node, label in sheet.names.items()}
    names |= {node: f"({name} <> 0.0)" for node, name in names.items() if sheet.graph.ops[node] in BOOLEAN}

    def text(line: Line, name: bool = True) -> str:
        known = names.get(line.node) if line in sheet.results else None
        written = "".join(_written(sheet.graph, line.node, known or write(sheet.graph, line.node, spell, names)))
        return f"{written} as {identifier(line.label)}" if name else written

    if not sheet.definitions:
        return text(sheet.results[0], False) if len(sheet.results) == 1 else ",\n".join(map(text, sheet.results))
    steps, source = [], "data"
    for number_, lines in enumerate(_levels(sheet), 1):
        steps.append(f"  step{number_} as (select *, {', '.join(map(text, lines))} from {source})")
        source = f"step{number_}"
    results = ",\n  ".join(map(text, sheet.results))
    return "with\n" + ",\n".join(steps) + f"\nselect\n  {results}\nfrom {source}"


def _written(graph: Graph, node: int, text: str) -> Iterable[str]:
    """A result as a number, also where it is a condition."""
    return ("case when ", text, " then 1.0 else 0.0 end") if graph.ops[node] in BOOLEAN else (text,)


def _levels(sheet: Sheet) -> list[list[Line]]:
    """Definitions by how many others they build on: a select cannot use a column of its own."""
    graph = sheet.graph
    own = {line.node: line for line in sheet.definitions}
    depth = [0] * len(graph)
    levels: dict[int, list[Line]] = {}
    for node in range(len(graph)):
        inside = max((depth[a] for a in graph.arguments(node)), default=0)
        if node in own:
            levels.setdefault(inside, []).append(own[node])
        depth[node] = inside + (node in own)
    return [levels[i] for i in sorted(levels)]
