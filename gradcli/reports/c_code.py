"""A C99 function that returns the value and fills an array with the gradients."""

from __future__ import annotations

from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN
from gradcli.reports.code import Identifiers, number, refuse
from gradcli.reports.sheet import Sheet
from gradcli.reports.writer import ATOM, INFIX, Piece, Spelled, call, infix, write

_NAMED = {"inf": "INFINITY", "nan": "NAN"}
_SAME = (
    "floor ceil trunc sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh "
    "cosh tanh asinh acosh atanh hypot copysign fmod erf erfc"
)
_MATH = {n: n for n in _SAME.split()} | {
    "abs": "fabs", "round": "rint", "gamma": "tgamma", "lgamma": "lgamma", "pow": "pow", "detach": "",
}  # fmt: skip
# Functions that math.h lacks, each emitted where it is used; they may use those above them.
_HELPERS = {
    "sign": "double {}(double x) {{ return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }}",
    "max": "double {}(double a, double b) {{ return a >= b || isnan(a) ? a : b; }}",
    "min": "double {}(double a, double b) {{ return a <= b || isnan(a) ? a : b; }}",
    "floordiv": "double {}(double a, double b) {{ return floor(a / b); }}",
    "mod": "double {}(double a, double b) {{ double r = fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }}",  # noqa: E501
    "step": "double {}(double x) {{ return x > 0 ? 1.0 : x < 0 ? 0.0 : x == 0 ? 0.5 : x; }}",
    "exp10": "double {}(double x) {{ return pow(10.0, x); }}",
    "sec": "double {}(double x) {{ return 1.0 / cos(x); }}",
    "csc": "double {}(double x) {{ return 1.0 / sin(x); }}",
    "cot": "double {}(double x) {{ return 1.0 / tan(x); }}",
    "sech": "double {}(double x) {{ return 1.0 / cosh(x); }}",
    "csch": "double {}(double x) {{ return 1.0 / sinh(x); }}",
    "coth": "double {}(double x) {{ return 1.0 / tanh(x); }}",
    "asec": "double {}(double x) {{ return acos(1.0 / x); }}",
    "acsc": "double {}(double x) {{ return asin(1.0 / x); }}",
    "acot": "double {}(double x) {{ return atan(1.0 / x); }}",
    "asech": "double {}(double x) {{ return acosh(1.0 / x); }}",
    "acsch": "double {}(double x) {{ return asinh(1.0 / x); }}",
    "acoth": "double {}(double x) {{ return atanh(1.0 / x); }}",
    "sinpi": "double {}(double x) {{ return sin(3.141592653589793 * fmod(x, 2.0)); }}",
    "cospi": "double {}(double x) {{ return cos(3.141592653589793 * fmod(x, 2.0)); }}",
    "sinc": "double {}(double x) {{ return x == 0 ? 1.0 : sin(3.141592653589793 * x) / (3.141592653589793 * x); }}",
    "deg2rad": "double {}(double x) {{ return x * (3.141592653589793 / 180.0); }}",
    "rad2deg": "double {}(double x) {{ return x * (180.0 / 3.141592653589793); }}",
    "sigmoid": "double {}(double x) {{ return 1.0 / (1.0 + exp(-x)); }}",
    "logit": "double {}(double p) {{ return log(p / (1.0 - p)); }}",
    "logaddexp": "double {}(double a, double b) {{ return a > b ? a + log1p(exp(b - a)) : a == b ? a + log(2.0) : "
    "b + log1p(exp(a - b)); }}",
    "logsumexp": "double {}(double a, double b) {{ return a > b ? a + log1p(exp(b - a)) : a == b ? a + log(2.0) : "
    "b + log1p(exp(a - b)); }}",
    "softplus": "double {}(double x) {{ return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }}",
    "relu": "double {}(double x) {{ return x < 0 ? 0.0 : x; }}",
    "relu6": "double {}(double x) {{ return x < 0 ? 0.0 : x > 6 ? 6.0 : x; }}",
    "leaky_relu": "double {}(double x) {{ return x > 0 ? x : x / 100.0; }}",
    "elu": "double {}(double x) {{ return x > 0 ? x : expm1(x); }}",
    "selu": "double {}(double x) {{ return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * expm1(x)); }}",
    "silu": "double {}(double x) {{ return x / (1.0 + exp(-x)); }}",
    "mish": "double {}(double x) {{ return x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x))); }}",
    "softsign": "double {}(double x) {{ return x / (1.0 + fabs(x)); }}",
    "normpdf": "double {}(double x) {{ return exp(-x * x / 2.0) * 0.3989422804014327; }}",
    "normcdf": "double {}(double x) {{ return 0.5 * erfc(-x * 0.7071067811865476); }}",
    "gelu": "double {}(double x) {{ return x * 0.5 * erfc(-x * 0.7071067811865476); }}",
    "xlogy": "double {}(double x, double y) {{ return x == 0 && !isnan(y) ? 0.0 : x * log(y); }}",
    "xlog1py": "double {}(double x, double y) {{ return x == 0 && !isnan(y) ? 0.0 : x * log1p(y); }}",
    "beta": "double {}(double a, double b) {{ return exp(lgamma(a) + lgamma(b) - lgamma(a + b)); }}",
    "logbeta": "double {}(double a, double b) {{ return lgamma(a) + lgamma(b) - lgamma(a + b); }}",
}
_INFIX = {op: row for op, row in INFIX.items() if op not in ("floordiv", "mod")} | {
    "or": (" || ", 1, 1, 2),
    "and": (" && ", 2, 2, 3),
    "eq": (" == ", 3, 4, 4),
    "ne": (" != ", 3, 4, 4),
    "mul": (" * ", 6, 6, 7),
    "div": (" / ", 6, 6, 7),
}
_KNOWN = frozenset((*_INFIX, *_MATH, *_HELPERS, "leaf", "name", "constant", "neg", "not", "where"))
_RESERVED = (
    "auto break case char const continue default do double else enum extern float for goto if inline int "
    "long register restrict return short signed sizeof static struct switch typedef union unsigned void "
    "volatile while main value d gradient gamma y0 y1 yn j0 j1 jn rint fabs isnan tgamma signgam NAN "
    "INFINITY"
)
_WORDS = frozenset(_RESERVED.split()) | frozenset(_MATH) | frozenset(_HELPERS)


class C:
    """Spell nodes in C."""

    def __init__(self, names: Identifiers) -> None:
        self.names = names

    def __call__(self, graph: Graph, node: int) -> Spelled:
        op, arguments = graph.ops[node], graph.arguments(node)
        if op in ("leaf", "name"):
            return [self.names[graph.labels[node]]], ATOM
        if op == "constant":
            text = number(graph.numbers[node][1], _NAMED)
            return [text], 7 if text.startswith("-") else ATOM
        if op == "neg":
            return ["-", *self._operand(graph, op, (arguments[0], 8))], 7
        if op == "not":
            return ["!", (arguments[0], 8)], 8
        if op in _INFIX:
            (left, sign, right), own = infix(graph, node, _INFIX)
            return [*self._operand(graph, op, left), sign, *self._operand(graph, op, right)], own
        if op == "where":
            return ["(", (arguments[0], 1), " ? ", (arguments[1], 1), " : ", (arguments[2], 1), ")"], ATOM
        if op in ("max", "min", "logsumexp") and len(arguments) > 2:
            pieces: list[Piece] = [f"{op}_(" * (len(arguments) - 1), (arguments[0], 0)]
            for a in arguments[1:]:
                pieces += [", ", (a, 0), ")"]
            return pieces, ATOM
        return call(f"{op}_" if op in _HELPERS else _MATH[op], arguments)

    def _operand(self, graph: Graph, op: str, operand: Piece) -> list[Piece]:
        """Conditions count as doubles in arithmetic, not as integers; inside other conditions they are bracketed, so
        that no compiler warns."""
        if isinstance(operand, str) or (inner := graph.ops[operand[0]]) not in BOOLEAN:
            return [operand]
        if op not in BOOLEAN:
            return ["(double)(", (operand[0], 0), ")"]
        return [(operand[0], 7)] if inner in ("and", "or") and inner != op else [operand]


def render(sheet: Sheet) -> str:
    """One function an output; `d[i]` is the i-th derivative of the comment above it."""
    refuse(sheet, _KNOWN, "C", "print it as text or python, or ask for another derivative")
    helpers = [op for op in _HELPERS if op in set(sheet.graph.ops)]
    lines = ["#include <math.h>", ""]
    lines += [f"static inline {_HELPERS[op].format(op + '_')}" for op in helpers]
    lines += [""] if helpers else []
    blocks = []
    for value in sheet.values:
        results = tuple(line for line in sheet.results if line.output == value.output)
        blocks.append(_function(sheet.only(results, (value,)), len(sheet.values) > 1))
    return "\n".join(lines) + "\n" + "\n\n".join(blocks)


def _function(sheet: Sheet, several: bool) -> str:
    names = Identifiers(_WORDS)
    (value,) = sheet.values
    leaves = [f"double {names[label]}" for label in sheet.parameters(value.output)]
    labels = {node: names[label] for node, label in sheet.names.items()}
    spell = C(names)

    def text(node: int) -> str:
        if node in labels:
            return labels[node]
        written = write(sheet.graph, node, spell, labels)
        return f"({written})" if sheet.graph.ops[node] in BOOLEAN else written

    title = f"gradient_{names[value.output]}" if several else "gradient"
    meaning = ", ".join(f"d[{i}] = {line.label}" for i, line in enumerate(sheet.results)).replace("*/", "* /")
    lines = [f"/* Returns {value.output.replace('*/', '* /')}; {meaning}. */",
             f"double {title}({', '.join([*leaves, f'double d[{max(1, len(sheet.results))}]'])})", "{"]  # fmt: skip
    lines += [
        f"    const double {names[line.label]} = {write(sheet.graph, line.node, spell, labels)};"
        for line in sheet.definitions
    ]
    lines += [f"    d[{i}] = {text(line.node)};" for i, line in enumerate(sheet.results)]
    return "\n".join([*lines, f"    return {text(value.node)};", "}"])
