"""A numpy function that returns the value and the gradients."""

from __future__ import annotations

import builtins
import keyword

from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN
from gradcli.reports.code import Identifiers, number, refuse
from gradcli.reports.sheet import Line, Sheet
from gradcli.reports.writer import ATOM, INFIX, Piece, Spelled, call, infix, write

_NAMED = {"pi": "np.pi", "e": "np.e", "inf": "np.inf", "nan": "np.nan"}
_SAME = (
    "abs sign floor ceil trunc sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh "
    "hypot copysign fmod logaddexp sinc deg2rad rad2deg"
)
_NUMPY = {n: f"np.{n}" for n in _SAME.split()} | {
    "round": "np.rint", "atan2": "np.arctan2", "asin": "np.arcsin", "acos": "np.arccos", "atan": "np.arctan",
    "asinh": "np.arcsinh", "acosh": "np.arccosh", "atanh": "np.arctanh",
    "gather": "np.sum", "mean": "np.mean", "min_rows": "np.min", "max_rows": "np.max", "prod_rows": "np.prod",
    "detach": "",
}  # fmt: skip
_SPECIAL = {"sigmoid": "expit", "logit": "logit", "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv",
            "gamma": "gamma", "lgamma": "gammaln", "digamma": "digamma", "beta": "beta", "logbeta": "betaln",
            "besselj": "jv",
            "bessely": "yv", "besseli": "iv", "besselk": "kv", "normcdf": "ndtr", "xlogy": "xlogy",
            "xlog1py": "xlog1py",
            "logsumexp_rows": "logsumexp", "softmax": "softmax", "polygamma": "polygamma"}  # fmt: skip
# What neither has, in terms of {0} (bracketed) and {1}.
_WRITTEN = {
    "sec": "1 / np.cos({0})", "csc": "1 / np.sin({0})", "cot": "1 / np.tan({0})", "sech": "1 / np.cosh({0})",
    "csch": "1 / np.sinh({0})", "coth": "1 / np.tanh({0})", "asec": "np.arccos(1 / {0})", "acsc": "np.arcsin(1 / {0})",
    "acot": "np.arctan(1 / {0})", "asech": "np.arccosh(1 / {0})", "acsch": "np.arcsinh(1 / {0})",
    "acoth": "np.arctanh(1 / {0})", "exp10": "np.power(10.0, {0})", "sinpi": "np.sin(np.pi * {0})",
    "cospi": "np.cos(np.pi * {0})", "step": "np.heaviside({0}, 0.5)", "softplus": "np.logaddexp({0}, 0.0)",
    "relu": "np.maximum({0}, 0.0)", "relu6": "np.clip({0}, 0.0, 6.0)",
    "leaky_relu": "np.where({0} > 0, {0}, {0} / 100)",
    "elu": "np.where({0} > 0, {0}, np.expm1({0}))", "silu": "{0} * special.expit({0})",
    "selu": "1.0507009873554805 * np.where({0} > 0, {0}, 1.6732632423543772 * np.expm1({0}))",
    "gelu": "{0} * special.ndtr({0})", "mish": "{0} * np.tanh(np.logaddexp({0}, 0.0))",
    "softsign": "{0} / (1 + np.abs({0}))", "normpdf": "np.exp(-({0}**2) / 2) / np.sqrt(2 * np.pi)",
    "var": "np.var({0}, ddof=1)", "std": "np.std({0}, ddof=1)", "norm": "np.sqrt(np.sum({0}**2))",
    "rows": "np.size({0})",
}  # fmt: skip
_CHAINS = {"max": "np.maximum", "min": "np.minimum", "logsumexp": "np.logaddexp", "and": "np.logical_and",
           "or": "np.logical_or", "not": "np.logical_not"}  # fmt: skip
_KNOWN = frozenset((*INFIX, *_NUMPY, *_SPECIAL, *_WRITTEN, *_CHAINS, "leaf", "name", "constant", "pow", "neg", "where"))
_WORDS = frozenset((*keyword.kwlist, *dir(builtins), "np", "special", "value", "gradients", "gradient", "derivatives"))


class Numpy:
    """Spell nodes in Python."""

    def __init__(self, names: Identifiers, lists: dict[str, str]) -> None:
        self.names, self.lists = names, lists

    def __call__(self, graph: Graph, node: int) -> Spelled:
        op, arguments = graph.ops[node], graph.arguments(node)
        if op in ("leaf", "name"):
            label = graph.labels[node]
            return [f"np.array({self.lists[label]})" if label in self.lists else self.names[label]], ATOM
        if op == "constant":
            text = number(graph.numbers[node][1], _NAMED)
            return [text], 7 if text.startswith("-") else ATOM
        if op in _CHAINS:
            return _nested(_CHAINS[op], list(arguments))
        if op in INFIX:
            (left, sign, right), own = infix(graph, node)
            return [*_real(graph, left), f" {str(sign).strip()} ", *_real(graph, right)], own
        if op == "pow":
            exponent = graph.numbers.get(arguments[1], (0.0, ""))[1]
            return [(arguments[0], 9), "**", exponent if exponent.isdigit() else (arguments[1], 8)], 8
        if op == "neg":
            return ["-", *_real(graph, (arguments[0], 6))], 6
        if op == "where":
            return call("np.where", arguments)
        if op in _WRITTEN:
            return _template(_WRITTEN[op], arguments[0])
        return call(f"special.{_SPECIAL[op]}" if op in _SPECIAL else _NUMPY[op], arguments)


def _real(graph: Graph, operand: Piece) -> list[Piece]:
    """An operand of arithmetic; a condition as 1 or 0, since numpy's truth values do not add up."""
    if isinstance(operand, str) or graph.ops[operand[0]] not in BOOLEAN:
        return [operand]
    return ["np.where(", (operand[0], 0), ", 1.0, 0.0)"]


def _nested(name: str, arguments: list[int]) -> Spelled:
    """`np.maximum(np.maximum(a, b), c)`."""
    pieces: list[Piece] = [f"{name}(" * max(1, len(arguments) - 1), (arguments[0], 0)]
    for a in arguments[1:]:
        pieces += [", ", (a, 0), ")"]
    return (pieces if len(arguments) > 1 else [*pieces, ")"]), ATOM


def _template(text: str, argument: int) -> Spelled:
    """A template in brackets; its argument is bracketed unless it stands alone in a call."""
    pieces: list[Piece] = ["("]
    for i, part in enumerate(text.split("{0}")):
        pieces += [(argument, ATOM), part] if i else [part]
    return [*pieces, ")"], ATOM


def render(sheet: Sheet) -> str:
    """One function an output; the keys of the gradients are names, or tuples of them for higher derivatives."""
    refuse(sheet, _KNOWN, "numpy", "print it as text, or ask for another derivative")
    blocks = []
    for value in sheet.values:
        lines = tuple(line for line in sheet.results if line.output == value.output)
        blocks.append(_function(sheet.only(lines, (value,)), len(sheet.values) > 1))
    head = ["import numpy as np"]
    if any("special." in block for block in blocks):
        head.append("from scipy import special")
    return "\n".join(head) + "\n\n\n" + "\n\n\n".join(blocks)


def _function(sheet: Sheet, several: bool) -> str:
    names = Identifiers(_WORDS)
    (value,) = sheet.values
    leaves = [names[label] for label in sheet.parameters(value.output)]
    labels = {node: names[label] for node, label in sheet.names.items()}
    spell = Numpy(names, dict(sheet.lists))

    def text(node: int) -> str:
        written = labels[node] if node in labels else write(sheet.graph, node, spell, labels)
        return f"np.where({written}, 1.0, 0.0)" if sheet.graph.ops[node] in BOOLEAN else written

    order = max((len(line.by) for line in sheet.results), default=1)
    word = "gradient" if order < 2 else "derivatives"
    title = f"{word}_{names[value.output]}" if several else word
    lines = [f"def {title}({', '.join(leaves)}):", f'    """The value of {value.output!r}, and its {word} by name."""',
             '    with np.errstate(all="ignore"):']  # fmt: skip
    lines += [
        f"        {names[line.label]} = {write(sheet.graph, line.node, spell, labels)}" for line in sheet.definitions
    ]
    lines.append(f"        value = {text(value.node)}")
    lines.append("        gradients = {")
    lines += [f"            {_key(line)}: {text(line.node)}," for line in sheet.results]
    return "\n".join([*lines, "        }", "    return value, gradients"])


def _key(line: Line) -> str:
    """A name in quotes, or a tuple of them."""
    words = [_quoted(n) for n in line.by]
    return words[0] if len(words) == 1 else f"({', '.join(words)})"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
