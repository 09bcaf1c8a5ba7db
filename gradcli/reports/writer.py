"""A node as text in some notation, without recursion: brackets only where the notation needs them.

A notation spells one node as pieces: text, and operands with the binding strength that their place needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from gradcli.graph import Graph

Piece: TypeAlias = "str | tuple[int, int]"  # text, or an operand and the strength its place needs
Spelled: TypeAlias = "tuple[Sequence[Piece], int]"  # the pieces, and how strongly the whole binds
Speller: TypeAlias = Callable[[Graph, int], Spelled]

ATOM = 10
INFIX = {  # operation: (sign, binding strength of the whole, of what its left and its right needs)
    "or": (" or ", 1, 1, 2),
    "and": (" and ", 2, 2, 3),
    "lt": (" < ", 4, 5, 5),
    "le": (" <= ", 4, 5, 5),
    "gt": (" > ", 4, 5, 5),
    "ge": (" >= ", 4, 5, 5),
    "eq": (" == ", 4, 5, 5),
    "ne": (" != ", 4, 5, 5),
    "add": (" + ", 5, 5, 6),
    "sub": (" - ", 5, 5, 6),
    "mul": ("*", 6, 6, 7),
    "div": ("/", 6, 6, 7),
    "floordiv": ("//", 6, 6, 7),
    "mod": ("%", 6, 6, 7),
}


def write(graph: Graph, node: int, spell: Speller, names: Mapping[int, str] | None = None,
          brackets: tuple[str, str] = ("(", ")")) -> str:  # fmt: skip
    """The text of a node. `names`: nodes that are written as a name; the node itself is written out."""
    names = names or {}
    out: list[str] = []
    stack: list[Piece] = list(reversed(spell(graph, node)[0]))
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            out.append(piece)
            continue
        inner, needs = piece
        if inner in names:
            out.append(names[inner])
            continue
        pieces, strength = spell(graph, inner)
        if strength < needs:
            out.append(brackets[0])
            stack.append(brackets[1])
        stack.extend(reversed(pieces))
    return "".join(out)


def infix(graph: Graph, node: int, table: Mapping[str, tuple[str, int, int, int]] = INFIX) -> Spelled:
    """Two operands and a sign. A remainder inside a product is bracketed: it is seldom read as it binds."""
    op, (a, b) = graph.ops[node], graph.arguments(node)
    sign, own, left, right = table[op]
    left = right if op in ("mul", "div") and graph.ops[a] in ("mod", "floordiv") else left
    return [(a, left), sign, (b, right)], own


def call(name: str, arguments: Sequence[int], opening: str = "(", closing: str = ")") -> Spelled:
    pieces: list[Piece] = [name + opening]
    for i, a in enumerate(arguments):
        pieces += [", ", (a, 0)] if i else [(a, 0)]
    pieces.append(closing)
    return pieces, ATOM
