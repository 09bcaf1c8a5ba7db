"""A node as LaTeX: fractions, roots, Greek letters, cases for choices."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gradcli.graph import Graph
from gradcli.reports.sheet import Line, Sheet
from gradcli.reports.writer import ATOM, Piece, Spelled, call, write

_ALPHABET = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
    "phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
)
_GREEK = frozenset(_ALPHABET.split())
_LETTERS = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ", _ALPHABET.split(), strict=True))
_SUBSCRIPT = re.compile(r"([^\W\d_]+)_?([0-9]+|(?<=_)\w+)")
_CONSTANTS = {"pi": r"\pi", "tau": r"2 \pi", "e": "e", "inf": r"\infty", "nan": r"\mathrm{nan}"}
_INFIX = {
    "or": (r" \lor ", 1, 1, 2),
    "and": (r" \land ", 2, 2, 3),
    "lt": (" < ", 4, 5, 5),
    "le": (r" \le ", 4, 5, 5),
    "gt": (" > ", 4, 5, 5),
    "ge": (r" \ge ", 4, 5, 5),
    "eq": (" = ", 4, 5, 5),
    "ne": (r" \ne ", 4, 5, 5),
    "add": (" + ", 5, 5, 6),
    "sub": (" - ", 5, 5, 6),
    "mod": (r" \bmod ", 6, 6, 7),
}
_COMMANDS = "sin cos tan sec csc cot sinh cosh tanh coth exp log min max"
_NAMED = {  # functions with a command of their own, or another usual name
    **{n: rf"\{n}" for n in _COMMANDS.split()},
    **{f"a{n}": rf"\arc{n}" for n in ("sin", "cos", "tan")},
    "gamma": r"\Gamma", "digamma": r"\psi", "beta": r"\mathrm{B}", "normcdf": r"\Phi", "normpdf": r"\varphi",
    "sigmoid": r"\sigma", "log2": r"\log_{2}", "log10": r"\log_{10}", "sign": r"\operatorname{sgn}",
    "lgamma": r"\log\Gamma", "min_rows": r"\min", "max_rows": r"\max", "prod_rows": r"\prod", "gather": r"\sum",
    "logsumexp_rows": r"\operatorname{logsumexp}", "mean": r"\operatorname{mean}",
}  # fmt: skip
_AROUND = {"abs": (r"\left|", r"\right|"), "floor": (r"\left\lfloor ", r"\right\rfloor"),
           "ceil": (r"\left\lceil ", r"\right\rceil"), "sqrt": (r"\sqrt{", "}"), "cbrt": (r"\sqrt[3]{", "}"),
           "exp2": ("2^{", "}"), "exp10": ("10^{", "}"), "norm": (r"\left\lVert ", r"\right\rVert")}  # fmt: skip
_ORDERED = {"besselj": "J", "bessely": "Y", "besseli": "I", "besselk": "K", "polygamma": r"\psi"}
_BRACKETS = (r"\left(", r"\right)")


def symbol(label: str) -> str:
    """A name: Greek letters, subscripts, longer words upright."""
    found = _SUBSCRIPT.fullmatch(label)
    if found:
        below = found[2] if found[2].isdigit() else symbol(found[2])
        return f"{_word(found[1])}_{{{below}}}"
    return _word(label)


def _word(label: str) -> str:
    if label in _GREEK:
        return rf"\{label}"
    if label in _LETTERS:
        return rf"\{_LETTERS[label]}"
    if len(label) == 1 and label.isalpha():
        return label
    plain = "".join({"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}.get(c)
                    or (f"\\{c}" if c in "#$%&_{}" else c) for c in label)  # fmt: skip
    return rf"\mathrm{{{plain}}}" if label.isalnum() else rf"\text{{{plain}}}"


class Latex:
    """Spell nodes in LaTeX."""

    def __init__(self, lists: Mapping[str, str] | None = None) -> None:
        self.lists = lists or {}

    def name(self, label: str) -> str:
        return rf"\left{self.lists[label][:-1]}\right]" if label in self.lists else symbol(label)

    def __call__(self, graph: Graph, node: int) -> Spelled:
        op, arguments = graph.ops[node], graph.arguments(node)
        if op in ("leaf", "name"):
            return [self.name(graph.labels[node])], ATOM
        if op == "constant":
            return _number(graph.numbers[node][1])
        if op in _INFIX:
            sign, own, left, right = _INFIX[op]
            return [(arguments[0], left), sign, (arguments[1], right)], own
        if op == "mul":
            return [(arguments[0], 6), _times(graph, arguments[1]), (arguments[1], 7)], 6
        if op == "div":
            return [r"\frac{", (arguments[0], 0), "}{", (arguments[1], 0), "}"], 8
        if op == "pow":
            return self._power(graph, arguments[0], arguments[1])
        if op == "neg":
            return ["-", (arguments[0], 6)], 6 if graph.ops[arguments[0]] == "mul" else 7
        if op == "not":
            return [r"\lnot ", (arguments[0], 4)], 3
        if op == "where":
            return self._cases(graph, node)
        return self._call(op, list(arguments))

    def _power(self, graph: Graph, base: int, exponent: int) -> Spelled:
        """`sin(x)^2` carries its exponent at the name."""
        op = graph.ops[base]
        if op in _NAMED and op not in ("exp", "gather") and graph.numbers.get(exponent, (0.0, "-"))[1].isdigit():
            return call(f"{_NAMED[op]}^{{{graph.numbers[exponent][1]}}}", graph.arguments(base), *_BRACKETS)
        if op == "exp":
            return ["e^{", (graph.arguments(base)[0], 6), r" \cdot ", (exponent, 7), "}"], 8
        return [(base, 9), "^{", (exponent, 0), "}"], 8

    def _cases(self, graph: Graph, node: int) -> Spelled:
        """A choice, and those in its other branch, in one table."""
        pieces: list[Piece] = [r"\begin{cases} "]
        while graph.ops[node] == "where":
            condition, a, node = graph.arguments(node)
            pieces += [(a, 0), r" & \text{if } ", (condition, 0), r" \\ "]
        return [*pieces, (node, 0), r" & \text{otherwise} \end{cases}"], 9

    def _call(self, op: str, arguments: list[int]) -> Spelled:
        if op == "exp":
            return ["e^{", (arguments[0], 0), "}"], 8
        if op in _AROUND:
            before, behind = _AROUND[op]
            return [before, (arguments[0], 0), behind], ATOM if op[:3] != "exp" else 8
        if op in _ORDERED:
            before, behind = ("^{(", ")}") if op == "polygamma" else ("_{", "}")
            inner = (arguments[1], 0)
            return [_ORDERED[op] + before, (arguments[0], 0), behind + r"\left(", inner, r"\right)"], ATOM
        if op == "floordiv":
            return [r"\left\lfloor \frac{", (arguments[0], 0), "}{", (arguments[1], 0), r"}\right\rfloor"], ATOM
        if op == "rows":
            return ["n"], ATOM
        name = _NAMED.get(op) or rf"\operatorname{{{op.replace('_', chr(92) + '_')}}}"
        return call(name, arguments, *_BRACKETS)


def _times(graph: Graph, right: int) -> str:
    """A product needs no sign, except before a number."""
    node = right
    while graph.ops[node] in ("pow", "mul"):
        node = graph.arguments(node)[0]
    number = graph.ops[node] == "constant" and graph.numbers[node][1][0] in "0123456789.-"
    return r" \cdot " if number else " "


def _number(text: str) -> Spelled:
    if text in _CONSTANTS:
        return [_CONSTANTS[text]], 6 if text == "tau" else ATOM
    mantissa, _, exponent = text.partition("e")
    strength = 7 if text.startswith("-") else ATOM
    if not exponent:
        return [text], strength
    return [f"{mantissa} \\cdot 10^{{{int(exponent)}}}"], 6


def _title(line: Line) -> str:
    if not line.by:
        return symbol(line.label)
    order = f"^{{{len(line.by)}}}" if len(line.by) > 1 else ""
    below = []
    for n in dict.fromkeys(line.by):
        count = line.by.count(n)
        below.append(rf"\partial {symbol(n)}" + (f"^{{{count}}}" if count > 1 else ""))
    return rf"\frac{{\partial{order} {symbol(line.output)}}}{{{' '.join(below)}}}"


def render(sheet: Sheet) -> str:
    """Definitions, then a line a result; a single result is a bare formula."""
    spell = Latex(sheet.lists)
    names = {node: symbol(label) for node, label in sheet.names.items()}

    def text(node: int) -> str:
        return write(sheet.graph, node, spell, names, _BRACKETS)

    lines = [f"{symbol(line.label)} = {text(line.node)}" for line in sheet.definitions]
    if len(sheet.results) == 1:
        return "\n".join([*lines, text(sheet.results[0].node)])
    return "\n".join(
        [*lines, *(f"{_title(line)} = {names.get(line.node) or text(line.node)}" for line in sheet.results)]
    )
