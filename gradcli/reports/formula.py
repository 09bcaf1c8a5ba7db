"""A node as an expression of the language: infix, brackets only where they are needed, no recursion."""

from __future__ import annotations

from gradcli.graph import Graph

# binding strength of what an operation prints, and of what it needs on its left and right
_INFIX = {
    "or": ("or", 1, 1, 2),
    "and": ("and", 2, 2, 3),
    "lt": ("<", 4, 5, 5),
    "le": ("<=", 4, 5, 5),
    "gt": (">", 4, 5, 5),
    "ge": (">=", 4, 5, 5),
    "eq": ("==", 4, 5, 5),
    "ne": ("!=", 4, 5, 5),
    "add": ("+", 5, 5, 6),
    "sub": ("-", 5, 5, 6),
    "mul": ("*", 6, 6, 7),
    "div": ("/", 6, 6, 7),
    "floordiv": ("//", 6, 6, 7),
    "mod": ("%", 6, 6, 7),
    "pow": ("^", 8, 9, 7),
    "_power": ("^", 8, 9, 7),
}
_PREFIX = {"neg": ("-", 7, 7), "not": ("not ", 3, 3)}
_SPELLED = {
    "_sech2": "sech({})^2",
    "_expsq": "exp(-{0}^2)",
    "_gauss": "exp(-{0}^2/2)",
    "_number": "{}",
    "gather": "sum({})",
}
_ATOM = 10


def formula(graph: Graph, node: int) -> str:
    """The text of a node; names and leaves by their label."""
    done: dict[int, tuple[str, int]] = {}
    marks = graph.reachable((node,))
    for i, mark in enumerate(marks):
        if mark:
            done[i] = _spell(graph, i, done)
    return done[node][0]


def _spell(graph: Graph, node: int, done: dict[int, tuple[str, int]]) -> tuple[str, int]:
    op = graph.ops[node]
    if node in graph.labels and op in ("leaf", "name"):
        return graph.labels[node], _ATOM
    if node in graph.numbers:
        text = graph.numbers[node][1]
        text = text.removesuffix(".0")
        strength = 6 if "/" in text else 7 if text.startswith("-") else _ATOM
        return text, strength
    arguments = [done[a] for a in graph.arguments(node)]
    if op == "_taint" or op == "spread":
        return arguments[0]
    if op in _INFIX:
        sign, own, left, right = _INFIX[op]
        a, b = _bracketed(arguments[0], left), _bracketed(arguments[1], right)
        tight = "" if own >= 6 else " "
        return f"{a}{tight}{sign}{tight}{b}", own
    if op in _PREFIX:
        sign, own, needs = _PREFIX[op]
        return sign + _bracketed(arguments[0], needs), own
    if op in _SPELLED:
        text = _SPELLED[op]
        inner = _bracketed(arguments[0], 9) if "^" in text and "({})" not in text else arguments[0][0]
        return text.format(inner), 8 if text.endswith("^2") else _ATOM
    name = op.removesuffix("_rows")
    return f"{name.lstrip('_')}({', '.join(a for a, _ in arguments)})", _ATOM


def _bracketed(part: tuple[str, int], needs: int) -> str:
    text, strength = part
    return text if strength >= needs else f"({text})"
