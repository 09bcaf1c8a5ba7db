"""The table: one row adds a function. Everything else in the project reads it; nothing lists functions again.

A row states
  name, arguments  the words of messages and help; `*` marks an argument that repeats (at least twice)
  ufunc            the name of the numpy ufunc (or `special.NAME` of scipy) that computes it, or None
  formula          else how to compute it from other rows; expanded after differentiation
  rule             the VJP: (g, y, *arguments) -> one cotangent per argument. It appends nodes, it computes nothing.
                   None in a place: no gradient is carried (a condition, an order); `g.zero()`: a slope of zero.
                   No rule at all: the formula itself is differentiated
  exact            (m, *arguments): the same function over `m`, which is mpmath or sympy (calculus/exact)
  domain           one interval per argument, away from which the result is nan or the function is not defined
  doc              one line: meaning, units, convention at special points; DLMF = Digital Library of Mathematical Functions

Rules are accurate in the tails: no 1 - tanh(x)^2, no x^2 that overflows, no division by a square.
Names that begin with `_` are the project's own and cannot be called from a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import e as E
from math import inf, nan, pi, sqrt
from typing import Any, NamedTuple

from gradcli.formulas import (
    DEGREE,
    DENSITY,
    ERF,
    HALF_ERF,
    LN2,
    LN10,
    PI,
    RADIAN,
    SELU,
    SELU_ALPHA,
    Rule,
    centred,
    digamma_drop_formula,
    extreme_rule,
    flat,
    fold,
    gauss,
    gradient_free,
    half_turns,
    ierfcx_formula,
    lgamma_formula,
    logaddexp_rule,
    logsumexp_rows_formula,
    logsumexp_rule,
    others_formula,
    others_rule,
    pow_formula,
    pow_rule,
    sech2_formula,
    select_rule,
    sinc_formula,
    sinpi_formula,
    softmax_formula,
    softmax_rule,
)
from gradcli.graph import Graph, Node, f

Interval = tuple[float, float]


class Primitive(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    ufunc: str | None
    formula: Callable[..., Node] | None
    rule: Rule | None
    exact: Callable[..., Any]
    domain: tuple[Interval, ...]
    doc: str
    aliases: tuple[str, ...] = ()
    reduction: str = ""  # "scalar" or "column": what comes out of the rows

    @property
    def variadic(self) -> bool:
        return self.arguments[-1].endswith("*")

    @property
    def signature(self) -> str:
        """`max(a, b, ...)`."""
        names = [a.rstrip("*") for a in self.arguments]
        return f"{self.name}({', '.join(names)}{', ...' if self.variadic else ''})"

    @property
    def composite(self) -> bool:
        """Whether the formula itself is differentiated."""
        return self.rule is None


TABLE: dict[str, Primitive] = {}


def row(name: str, arguments: str, forward: str | Callable[..., Node] | None, rule: Rule | None,
        exact: Callable[..., Any], domain: Iterable[Interval], doc: str, aliases: str = "", reduction: str = "") -> None:
    ufunc, formula = (forward, None) if isinstance(forward, str) or forward is None else (None, forward)
    TABLE[name] = Primitive(name, tuple(arguments.split()), ufunc, formula, rule, exact, tuple(domain), doc,
                            tuple(aliases.split()), reduction)  # fmt: skip


R = (-inf, inf)        # the whole line
P = (0.0, inf)         # positive numbers, 0 included
U = (-1.0, 1.0)
BOOL = (0.0, 1.0)

# fmt: off
# ---- operators ---------------------------------------------------------------------------------------------------------
row("add",       "a b",   "add",          lambda g, y, a, b: (g, g),                                 lambda m, a, b: a + b,                [R, R],  "Sum.")
row("sub",       "a b",   "subtract",     lambda g, y, a, b: (g, -g),                                lambda m, a, b: a - b,                [R, R],  "Difference.")
row("mul",       "a b",   "multiply",     lambda g, y, a, b: (g * b, g * a),                         lambda m, a, b: a * b,                [R, R],  "Product.")
row("div",       "a b",   "divide",       lambda g, y, a, b: (g / b, -(g * y / b)),                  lambda m, a, b: a / b,                [R, R],  "Quotient.")
row("floordiv",  "a b",   "floor_divide", flat(2),                                                   lambda m, a, b: m.floor(a / b),       [R, R],  "Quotient rounded down, a // b; slope 0.")
row("mod",       "a b",   "remainder",    lambda g, y, a, b: (g, -(g * f.floordiv(a, b))),           lambda m, a, b: m.mod(a, b),           [R, R],  "Remainder with the sign of b, a % b; the partial by b is -(a // b).")
row("pow",       "x p",   pow_formula,    pow_rule,                                                  lambda m, x, p: m.power(x, p),        [P, R],  "Power x^p; x^0 is 1 with slope 0; the partial by p at x = 0, p >= 0 is 0, below x = 0 it is nan.")
row("neg",       "x",     "negative",     lambda g, y, x: (-g,),                                     lambda m, x: -x,                      [R],     "Minus x.")
row("lt",        "a b",   "less",         gradient_free(2),                                          lambda m, a, b: m.test(a < b),        [R, R],  "1 where a < b, else 0; no gradient.")
row("le",        "a b",   "less_equal",   gradient_free(2),                                          lambda m, a, b: m.test(a <= b),       [R, R],  "1 where a <= b, else 0; no gradient.")
row("gt",        "a b",   "greater",      gradient_free(2),                                          lambda m, a, b: m.test(a > b),        [R, R],  "1 where a > b, else 0; no gradient.")
row("ge",        "a b",   "greater_equal", gradient_free(2),                                         lambda m, a, b: m.test(a >= b),       [R, R],  "1 where a >= b, else 0; no gradient.")
row("eq",        "a b",   "equal",        gradient_free(2),                                          lambda m, a, b: m.equal(a, b),        [R, R],  "1 where a == b, else 0; no gradient.")
row("ne",        "a b",   "not_equal",    gradient_free(2),                                          lambda m, a, b: m.unequal(a, b),      [R, R],  "1 where a != b, else 0; also 1 with nan; no gradient.")
row("and",       "a b",   "logical_and",  gradient_free(2),                                          lambda m, a, b: m.both(a, b),         [BOOL, BOOL], "1 where both hold; no gradient.")
row("or",        "a b",   "logical_or",   gradient_free(2),                                          lambda m, a, b: m.either(a, b),       [BOOL, BOOL], "1 where one holds; no gradient.")
row("not",       "a",     "logical_not",  gradient_free(1),                                          lambda m, a: m.no(a),                 [BOOL],  "1 where a does not hold; no gradient.")

# ---- parts of a number -------------------------------------------------------------------------------------------------
row("abs",       "x",     "absolute",     lambda g, y, x: ((g * f.sign(x)).only(f.ne(x, 0)),),       lambda m, x: abs(x),                  [R],     "Absolute value; slope 0 at 0.", "fabs")
row("sign",      "x",     "sign",         flat(1),                                                   lambda m, x: m.sign(x),               [R],     "-1, 0 or 1; slope 0.", "sgn")
row("floor",     "x",     "floor",        flat(1),                                                   lambda m, x: m.floor(x),              [R],     "Largest whole number not above x; slope 0.")
row("ceil",      "x",     "ceil",         flat(1),                                                   lambda m, x: -m.floor(-x),            [R],     "Smallest whole number not below x; slope 0.")
row("round",     "x",     "rint",         flat(1),                                                   lambda m, x: m.round(x),              [R],     "Nearest whole number, half to even; slope 0.")
row("trunc",     "x",     "trunc",        flat(1),                                                   lambda m, x: m.sign(x)*m.floor(abs(x)), [R],   "x without its fraction; slope 0.")
row("sqrt",      "x",     "sqrt",         lambda g, y, x: (g * 0.5 / y,),                            lambda m, x: m.sqrt(x),               [P],     "Square root; slope inf at 0.")
row("cbrt",      "x",     "cbrt",         lambda g, y, x: (g / 3.0 / y / y,),                        lambda m, x: m.cbrt(x),               [R],     "Real cube root, also of negative numbers; slope inf at 0.")

# ---- exponentials and logarithms (DLMF 4.2, 4.10) ----------------------------------------------------------------------
row("exp",       "x",     "exp",          lambda g, y, x: (g * y,),                                  lambda m, x: m.exp(x),                [R],     "e^x.")
row("exp2",      "x",     "exp2",         lambda g, y, x: (g * y * LN2,),                            lambda m, x: m.power(2, x),           [R],     "2^x.")
row("exp10",     "x",     lambda x: f._power(10.0, x), lambda g, y, x: (g * y * LN10,),              lambda m, x: m.power(10, x),          [R],     "10^x.")
row("expm1",     "x",     "expm1",        lambda g, y, x: (g * f.exp(x),),                           lambda m, x: m.expm1(x),              [R],     "e^x - 1, accurate near 0.")
row("log",       "x",     "log",          lambda g, y, x: (g / x,),                                  lambda m, x: m.log(x),                [P],     "Natural logarithm.", "ln")
row("log2",      "x",     "log2",         lambda g, y, x: (g / LN2 / x,),                      lambda m, x: m.log(x)/m.log(2),       [P],     "Logarithm to base 2.")
row("log10",     "x",     "log10",        lambda g, y, x: (g / LN10 / x,),                     lambda m, x: m.log(x)/m.log(10),      [P],     "Logarithm to base 10.")
row("log1p",     "x",     "log1p",        lambda g, y, x: (g / (1.0 + x),),                          lambda m, x: m.log1p(x),              [(-1.0, inf)], "log(1 + x), accurate near 0.")

# ---- circular functions, angles in radians (DLMF 4.14, 4.20, 4.23) -----------------------------------------------------
row("sin",       "x",     "sin",          lambda g, y, x: (g * f.cos(x),),                           lambda m, x: m.sin(x),                [R],     "Sine; x in radians.")
row("cos",       "x",     "cos",          lambda g, y, x: (-(g * f.sin(x)),),                        lambda m, x: m.cos(x),                [R],     "Cosine; x in radians.")
row("tan",       "x",     "tan",          lambda g, y, x: (g * (1.0 + y * y),),                      lambda m, x: m.tan(x),                [R],     "Tangent; x in radians.")
row("sec",       "x",     lambda x: 1.0 / f.cos(x), lambda g, y, x: (g * y * f.tan(x),),             lambda m, x: 1/m.cos(x),              [R],     "1/cos(x).")
row("csc",       "x",     lambda x: 1.0 / f.sin(x), lambda g, y, x: (-(g * y * f.cot(x)),),          lambda m, x: 1/m.sin(x),              [R],     "1/sin(x).")
row("cot",       "x",     lambda x: 1.0 / f.tan(x), lambda g, y, x: (-(g * (1.0 + y * y)),),         lambda m, x: m.cos(x)/m.sin(x),       [R],     "1/tan(x).")
row("asin",      "x",     "arcsin",       lambda g, y, x: (g / f.sqrt(f._one_less_square(x)),),      lambda m, x: m.asin(x),               [U],     "Inverse sine, in radians.", "arcsin")
row("acos",      "x",     "arccos",       lambda g, y, x: (-(g / f.sqrt(f._one_less_square(x))),),   lambda m, x: m.acos(x),               [U],     "Inverse cosine, in radians.", "arccos")
row("atan",      "x",     "arctan",       lambda g, y, x: (g / (1.0 + x * x),),                      lambda m, x: m.atan(x),               [R],     "Inverse tangent, in radians.", "arctan")
row("asec",      "x",     lambda x: f.atan2(f.sqrt(f.abs(x) - 1.0) * f.sqrt(f.abs(x) + 1.0), f.copysign(1.0, x)), lambda g, y, x: (g / f.abs(x) / f.sqrt((f.abs(x) - 1.0) * (f.abs(x) + 1.0)),), lambda m, x: m.acos(1/x), [(1.0, inf)], "Inverse secant acos(1/x), |x| >= 1.", "arcsec")
row("acsc",      "x",     lambda x: f.atan2(f.copysign(1.0, x), f.sqrt(f.abs(x) - 1.0) * f.sqrt(f.abs(x) + 1.0)), lambda g, y, x: (-(g / f.abs(x) / f.sqrt((f.abs(x) - 1.0) * (f.abs(x) + 1.0))),), lambda m, x: m.asin(1/x), [(1.0, inf)], "Inverse cosecant asin(1/x), |x| >= 1.", "arccsc")
row("acot",      "x",     lambda x: f.atan(1.0 / x), lambda g, y, x: (-(g / (1.0 + x * x)),),        lambda m, x: m.atan(1/x),             [R],     "Inverse cotangent atan(1/x).", "arccot")
row("atan2",     "y x",   "arctan2",      lambda g, z, y, x: ((g * (x / f.hypot(x, y)) / f.hypot(x, y)).only(f.ne(f.hypot(x, y), 0)), (-(g * (y / f.hypot(x, y)) / f.hypot(x, y))).only(f.ne(f.hypot(x, y), 0))), lambda m, y, x: m.atan2(y, x), [R, R], "Angle of the point (x, y), -pi to pi; slopes 0 at the origin.", "arctan2")
row("sinpi",     "x",     sinpi_formula,  lambda g, y, x: (g * f.cospi(x) * PI,),                    lambda m, x: m.sinpi(x),              [R],     "sin(pi*x), exact at whole x.")
row("cospi",     "x",     lambda x: f.sin((0.5 - f.abs(half_turns(x))) * pi), lambda g, y, x: (-(g * f.sinpi(x) * PI),), lambda m, x: m.cospi(x), [R],     "cos(pi*x), exact at whole and half x.")
row("sinc",      "x",     lambda x: f._sinc(0.0, x), None,                                           lambda m, x: m.dsinc(0, x),           [R],     "sin(pi*x)/(pi*x), 1 at 0 (numpy, PyTorch).")
row("deg2rad",   "x",     lambda x: x * DEGREE, None,                                            lambda m, x: x*m.pi/180,              [R],     "Degrees to radians.", "radians")
row("rad2deg",   "x",     lambda x: x * RADIAN, None,                                            lambda m, x: x*180/m.pi,              [R],     "Radians to degrees.", "degrees")

# ---- hyperbolic functions (DLMF 4.28, 4.34, 4.37) ----------------------------------------------------------------------
row("sinh",      "x",     "sinh",         lambda g, y, x: (g * f.cosh(x),),                          lambda m, x: m.sinh(x),               [R],     "Hyperbolic sine.")
row("cosh",      "x",     "cosh",         lambda g, y, x: (g * f.sinh(x),),                          lambda m, x: m.cosh(x),               [R],     "Hyperbolic cosine.")
row("tanh",      "x",     "tanh",         lambda g, y, x: (g * f._sech2(x),),                        lambda m, x: m.tanh(x),               [R],     "Hyperbolic tangent.")
row("sech",      "x",     lambda x: f.exp(-f.abs(x)) * 2.0 / (1.0 + f.exp(f.abs(x) * -2.0)), lambda g, y, x: (-(g * y * f.tanh(x)),), lambda m, x: 1/m.cosh(x), [R], "1/cosh(x).")
row("csch",      "x",     lambda x: 1.0 / f.sinh(x), lambda g, y, x: (-(g * y * f.coth(x)),),        lambda m, x: 1/m.sinh(x),             [R],     "1/sinh(x).")
row("coth",      "x",     lambda x: 1.0 / f.tanh(x), lambda g, y, x: (-(g * f.csch(x) * f.csch(x)),), lambda m, x: 1/m.tanh(x),                [R],     "1/tanh(x).")
row("asinh",     "x",     "arcsinh",      lambda g, y, x: (g / f.hypot(x, 1.0),),                    lambda m, x: m.asinh(x),              [R],     "Inverse hyperbolic sine.", "arcsinh")
row("acosh",     "x",     "arccosh",      lambda g, y, x: (g / f.sqrt(x - 1.0) / f.sqrt(x + 1.0),),  lambda m, x: m.acosh(x),              [(1.0, inf)], "Inverse hyperbolic cosine.", "arccosh")
row("atanh",     "x",     "arctanh",      lambda g, y, x: (g / f._one_less_square(x),),            lambda m, x: m.atanh(x),              [U],     "Inverse hyperbolic tangent.", "arctanh")
row("asech",     "x",     lambda x: f.asinh(f.sqrt((1.0 - x) * 0.5) / f.sqrt(x)) * 2.0, lambda g, y, x: (-(g / x / f.sqrt(f._one_less_square(x))),), lambda m, x: m.acosh(1/x), [(0.0, 1.0)], "Inverse hyperbolic secant acosh(1/x).", "arcsech")
row("acsch",     "x",     lambda x: f.asinh(1.0 / x), lambda g, y, x: (-(g / f.abs(x) / f.hypot(x, 1.0)),), lambda m, x: m.asinh(1/x),     [R],     "Inverse hyperbolic cosecant asinh(1/x).", "arccsch")
row("acoth",     "x",     lambda x: f.copysign(f.log1p(2.0 / (f.abs(x) - 1.0)) * 0.5, x), lambda g, y, x: (g / f._one_less_square(x),), lambda m, x: m.atanh(1/x), [(1.0, inf)], "Inverse hyperbolic cotangent atanh(1/x), |x| > 1.", "arccoth")

# ---- choosing ----------------------------------------------------------------------------------------------------------
row("hypot",     "x y",   "hypot",        lambda g, z, x, y: ((g * (x / z)).only(f.ne(z, 0)), (g * (y / z)).only(f.ne(z, 0))), lambda m, x, y: m.sqrt(x*x + y*y), [R, R], "sqrt(x^2 + y^2) without overflow; slopes 0 at the origin.")
row("min",       "a b*",  fold("_minimum"), select_rule,                                             lambda m, *a: m.min(*a),              [R, R],  "Smallest; a tie shares the gradient evenly. Of one argument: over the rows.", "minimum fmin")
row("max",       "a b*",  fold("_maximum"), select_rule,                                             lambda m, *a: m.max(*a),              [R, R],  "Largest; a tie shares the gradient evenly. Of one argument: over the rows.", "maximum fmax")
row("clip",      "x lo hi", lambda x, lo, hi: f.min(f.max(x, lo), hi), None,                         lambda m, x, lo, hi: m.min(m.max(x, lo), hi), [R, R, R], "min(max(x, lo), hi); half the gradient on the border.", "clamp")
row("where",     "c a b", "where",        lambda g, y, c, a, b: (None, g.only(c), g.only(~c)),       lambda m, c, a, b: m.where(c, a, b),  [BOOL, R, R], "a where c holds, else b; the branch not selected never leaks.")
row("copysign",  "x y",   "copysign",     lambda g, z, x, y: (g * (f.sign(x) * f.copysign(1.0, y)), g.zero()), lambda m, x, y: abs(x)*m.where(m.test(y < 0), -1, 1), [R, R], "|x| with the sign of y; slope 0 at x = 0.")
row("fmod",      "a b",   "fmod",         lambda g, y, a, b: (g, -(g * f.round((a - y) / b))),       lambda m, a, b: m.fmod(a, b), [R, R], "Remainder with the sign of a, as in C; the partial by b is minus the truncated quotient.")
row("step",      "x",     lambda x: (f.sign(x) + 1.0) * 0.5, flat(1),                                lambda m, x: (m.sign(x) + 1)/2,       [R],     "0 below 0, 1 above, one half at 0; slope 0.", "heaviside")

# ---- activations (PyTorch's definitions) -------------------------------------------------------------------------------
row("sigmoid",   "x",     lambda x: f.where(x < 0, f.exp(-f.abs(x)), 1.0) / (1.0 + f.exp(-f.abs(x))), lambda g, y, x: (g * y * f.sigmoid(-x),), lambda m, x: 1/(1 + m.exp(-x)),     [R],     "1/(1 + exp(-x)), accurate in both tails.", "expit logistic")
row("logit",     "p",     lambda p: f.where(f.abs(p - 0.5) < 0.25, f.atanh(p * 2.0 - 1.0) * 2.0, f.log(p / (1.0 - p))), lambda g, y, p: (g / (p * (1.0 - p)),), lambda m, p: m.log(p/(1 - p)), [(0.0, 1.0)], "log(p/(1 - p)), the inverse of sigmoid.")
row("softplus",  "x",     lambda x: f._logaddexp(x, 0.0), lambda g, y, x: (g * f.sigmoid(x),),       lambda m, x: m.logaddexp(x, 0),       [R],     "log(1 + exp(x)) without overflow or threshold.", "log1pexp")
row("relu",      "x",     lambda x: f._maximum(x, 0.0), lambda g, y, x: (g.only(x > 0),),            lambda m, x: m.where(m.test(x > 0), x, 0), [R],  "x above 0, else 0; slope 0 at 0.")
row("relu6",     "x",     lambda x: f._minimum(f._maximum(x, 0.0), 6.0), lambda g, y, x: (g.only((x > 0) & (x < 6)),), lambda m, x: m.where(m.test(x > 0), m.where(m.test(x < 6), x, 6), 0), [R], "relu up to 6; slope 0 at 0 and 6.")
row("leaky_relu", "x",    lambda x: f.where(x > 0, x, x * 0.01), None,                               lambda m, x: m.where(m.test(x > 0), x, x/m.num(100)), [R], "x above 0, else x/100; slope 0.01 at 0.", "leakyrelu")
row("elu",       "x",     lambda x: f.where(x > 0, x, f.expm1(x)), None,                             lambda m, x: m.where(m.test(x > 0), x, m.expm1(x)), [R], "x above 0, else exp(x) - 1; slope 1 at 0.")
row("selu",      "x",     lambda x: f.where(x > 0, x, f.expm1(x) * SELU_ALPHA) * SELU, None, lambda m, x: m.num("1.0507009873554804934193349852946")*m.where(m.test(x > 0), x, m.num("1.6732632423543772848170429916717")*m.expm1(x)), [R], "Scaled elu; slope 1.7580993408 at 0.")
row("gelu",      "x",     lambda x: x * f.normcdf(x), None,                                          lambda m, x: x*m.erfc(-x/m.sqrt(m.num(2)))/2, [R],  "x*normcdf(x), the erf form.", "gelu_erf")
row("silu",      "x",     lambda x: x * f.sigmoid(x), None,                                          lambda m, x: x/(1 + m.exp(-x)),       [R],     "x*sigmoid(x).", "swish")
row("mish",      "x",     lambda x: x * f.tanh(f.softplus(x)), None,                                 lambda m, x: x*m.tanh(m.logaddexp(x, 0)), [R], "x*tanh(softplus(x)).")
row("softsign",  "x",     lambda x: x / (1.0 + f.abs(x)), lambda g, y, x: (g / (1.0 + f.abs(x)) / (1.0 + f.abs(x)),), lambda m, x: x/(1 + abs(x)), [R], "x/(1 + |x|).")

# ---- sums of exponentials ----------------------------------------------------------------------------------------------
row("logaddexp", "a b",   lambda a, b: f._logaddexp(a, b), logaddexp_rule,                           lambda m, a, b: m.logaddexp(a, b),    [R, R],  "log(exp(a) + exp(b)) without overflow.")
row("logsumexp", "a b*",  fold("_logaddexp"), logsumexp_rule,                                        lambda m, *a: m.logsumexp(*a),        [R, R],  "log(exp(a) + exp(b) + ...) without overflow. Of one argument: over the rows.")
row("xlogy",     "x y",   lambda x, y: f.where(f.eq(x, 0) & f.eq(y, y), 0.0, x * f.log(y)), lambda g, z, x, y: ((g * f.log(y)).only(~(f.eq(x, 0) & (y <= 0))), g * (x / y)), lambda m, x, y: x*m.log(y), [R, P], "x*log(y), 0 at x = 0.")
row("xlog1py",   "x y",   lambda x, y: f.where(f.eq(x, 0) & f.eq(y, y), 0.0, x * f.log1p(y)), lambda g, z, x, y: ((g * f.log1p(y)).only(~(f.eq(x, 0) & (y <= -1))), g * (x / (1.0 + y))), lambda m, x, y: x*m.log1p(y), [R, (-1.0, inf)], "x*log(1 + y), 0 at x = 0.")

# ---- the normal distribution and error functions (DLMF 7.2, 7.10) ------------------------------------------------------
row("normpdf",   "x",     lambda x: f._gauss(x) * DENSITY, lambda g, y, x: (-(g * y * x),),                          lambda m, x: m.exp(-x*x/2)/m.sqrt(2*m.pi), [R], "Density of the standard normal distribution.")
row("normcdf",   "x",     lambda x: f.where(x < -1.0, f._erfcx(x * -sqrt(0.5)) * f._gauss(x) * 0.5, f._erfc(x * -sqrt(0.5)) * 0.5), lambda g, y, x: (g * f.normpdf(x),), lambda m, x: m.erfc(-x/m.sqrt(m.num(2)))/2, [R], "Distribution function of the standard normal distribution.", "ndtr")
row("erf",       "x",     "special.erf",  lambda g, y, x: (g * f._bell(x) * ERF,),       lambda m, x: m.erf(x),                [R],     "Error function.")
row("erfc",      "x",     lambda x: f.where(x < 0.5, f._erfc(x), f._erfcx(x) * f._bell(x)), lambda g, y, x: (-(g * f._bell(x) * ERF),), lambda m, x: m.erfc(x),               [R],     "1 - erf(x), accurate in the right tail.")
row("erfcx",     "x",     lambda x: f.where(x < -1.0, f._expsq(x) * 2.0 - f._erfcx(-x), f._erfcx(x)), lambda g, y, x: (-(g * f._ierfcx(1.0, x) * 2.0),), lambda m, x: m.erfcx(x),              [R],     "exp(x^2)*erfc(x).")
row("erfinv",    "x",     "special.erfinv", lambda g, y, x: (g * HALF_ERF * f.where((f.abs(x) < 0.5) | f.eq(f.abs(x), 1), 1.0 / f._bell(y), f._erfcx(f.abs(y)) / (1.0 - f.abs(x))),),    lambda m, x: m.erfinv(x),             [U],     "Inverse of erf.")

# ---- gamma and Bessel functions (DLMF 5.2, 5.15, 10.6, 10.29) ----------------------------------------------------------
row("gamma",     "x",     "special.gamma", lambda g, y, x: (g * y * f.digamma(x),),                  lambda m, x: m.gamma(x),              [P],     "Gamma function.")
row("lgamma",    "x",     lgamma_formula, lambda g, y, x: (g * f.digamma(x),),                    lambda m, x: m.lgamma(x),             [P],     "log|gamma(x)|.", "loggamma gammaln")
row("digamma",   "x",     "special.digamma", lambda g, y, x: (g * f.polygamma(1.0, x),),             lambda m, x: m.polygamma(0, x),       [P],     "Derivative of lgamma.", "psi")
row("polygamma", "m x",   lambda n, x: f.where(f.eq(n, 0), f.digamma(x), f.gamma(n + 1.0) * f._zeta(n + 1.0, f.where(x < -1e4, nan, x)) * (1.0 - f.mod(n + 1.0, 2.0) * 2.0)), lambda g, y, n, x: (None, g * f.polygamma(n + 1.0, x)), lambda m, n, x: m.polygamma(n, x), [(0.0, 20.0), P], "m-th derivative of digamma, nan below x = -10000; the order carries no gradient.")
row("beta",      "a b",   "special.beta", lambda g, y, a, b: (g * y * f._digamma_drop(0.0, a, b), g * y * f._digamma_drop(0.0, b, a)), lambda m, a, b: m.beta(a, b), [P, P], "Beta function.")
row("logbeta",   "a b",   "special.betaln", lambda g, y, a, b: (g * f._digamma_drop(0.0, a, b), g * f._digamma_drop(0.0, b, a)), lambda m, a, b: m.logbeta(a, b), [P, P], "log of the beta function.", "betaln lbeta")
row("besselj",   "n x",   "special.jv",   lambda g, y, n, x: (None, g * ((f.besselj(n - 1.0, x) - f.besselj(n + 1.0, x)) * 0.5)), lambda m, n, x: m.besselj(n, x), [(0.0, 20.0), P], "Bessel function of the first kind; the order carries no gradient.")
row("bessely",   "n x",   "special.yv",   lambda g, y, n, x: (None, g * ((f.bessely(n - 1.0, x) - f.bessely(n + 1.0, x)) * 0.5)), lambda m, n, x: m.bessely(n, x), [(0.0, 20.0), P], "Bessel function of the second kind; the order carries no gradient.")
row("besseli",   "n x",   "special.iv",   lambda g, y, n, x: (None, g * ((f.besseli(n - 1.0, x) + f.besseli(n + 1.0, x)) * 0.5)), lambda m, n, x: m.besseli(n, x), [(0.0, 20.0), P], "Modified Bessel function of the first kind; the order carries no gradient.")
row("besselk",   "n x",   "special.kv",   lambda g, y, n, x: (None, g * ((f.besselk(n - 1.0, x) + f.besselk(n + 1.0, x)) * -0.5)), lambda m, n, x: m.besselk(n, x), [(0.0, 20.0), P], "Modified Bessel function of the second kind; the order carries no gradient.")

# ---- over the rows (a scalar counts as one row) ------------------------------------------------------------------------
row("sum",       "x",     lambda x: f.gather(x), None,                                               lambda m, x: m.sum(x),                [R],     "Sum over the rows.", reduction="scalar")
row("mean",      "x",     lambda x: f.gather(x) / f.rows(x), None,                                   lambda m, x: m.sum(x)/len(x),         [R],     "Mean over the rows.", reduction="scalar")
row("prod",      "x",     lambda x: f.prod_rows(x), None,                                            lambda m, x: m.prod(x),               [R],     "Product over the rows; the gradient is the product of the others.", reduction="scalar")
row("var",       "x",     lambda x: f.gather(centred(x) * centred(x)) / (f.rows(x) - 1.0), lambda g, y, x: ((g * 2.0 / (f.rows(x) - 1.0)).spread(x) * centred(x),), lambda m, x: m.var(x), [R], "Variance over the rows, divided by n - 1.", reduction="scalar")
row("std",       "x",     lambda x: f.sqrt(f.gather(centred(x) * centred(x)) / (f.rows(x) - 1.0)), lambda g, y, x: ((g / (f.rows(x) - 1.0) / y).only(f.ne(y, 0)).spread(x) * centred(x),), lambda m, x: m.sqrt(m.var(x)), [R], "Standard deviation over the rows, divided by n - 1; gradient 0 where all are equal.", reduction="scalar")
row("norm",      "x",     lambda x: f.sqrt(f.gather(x * x)), lambda g, y, x: ((g / y).only(f.ne(y, 0)).spread(x) * x,), lambda m, x: m.sqrt(m.sum([v*v for v in x])), [R], "Square root of the sum of squares over the rows; gradient 0 at 0.", reduction="scalar")
row("dot",       "x y",   lambda x, y: f.gather(x * y), None,                                        lambda m, x, y: m.sum([a*b for a, b in zip(x, y, strict=True)]), [R, R], "Sum of products over the rows.", reduction="scalar")
row("softmax",   "x",     softmax_formula, softmax_rule,                                             lambda m, x: m.softmax(x),            [R],     "exp(x)/sum(exp(x)) over the rows: a column.", reduction="column")
row("min_rows",  "x",     "minimum.reduce", extreme_rule,                                            lambda m, x: m.min(*x),               [R],     "min of one argument.", reduction="scalar")
row("max_rows",  "x",     "maximum.reduce", extreme_rule,                                            lambda m, x: m.max(*x),               [R],     "max of one argument.", reduction="scalar")
row("prod_rows", "x",     "multiply.reduce", lambda g, y, x: (g.spread(x) * f._others(x),),          lambda m, x: m.prod(x),               [R],     "prod.", reduction="scalar")
row("_others",   "x",     others_formula, others_rule,                                               lambda m, x: [m.prod([*x[:i], *x[i+1:]]) for i in range(len(x))], [R], "For each row the product of the others.", reduction="column")
row("logsumexp_rows", "x", logsumexp_rows_formula, lambda g, y, x: (g.spread(x) * f.softmax(x),), lambda m, x: m.logsumexp(*x), [R], "logsumexp of one argument.", reduction="scalar")

# ---- structure, and helpers that only rules and formulas use ------------------------------------------------------------
row("detach",    "x",     None,           gradient_free(1),                                          lambda m, x: x,                       [R],     "The value of x; stops the gradient.")
row("gather",    "x",     "add.reduce",   lambda g, y, x: (g.spread(x),),           lambda m, x: m.sum(x),                [R],     "Sum over the rows, to a scalar.", reduction="scalar")
row("spread",    "x like", None,          lambda g, y, x, like: (g, None), lambda m, x, like: x,             [R, R],  "A scalar in every row of a column.")
row("rows",      "x",     None,           gradient_free(1),                                          lambda m, x: len(x),                  [R],     "The number of rows.", reduction="scalar")
row("_taint",    "x y",   None,           lambda g, z, x, y: (g, None),                              lambda m, x, y: m.where(m.equal(y, y), x, m.nan),                    [R, R],  "x, but nan where y is nan.")
row("_number",   "c",     "_number",      gradient_free(1),                                          lambda m, c: m.num(c),                [BOOL],  "A condition as 0.0 or 1.0.")
row("_minimum",  "a b",   "minimum",      select_rule,                                               lambda m, a, b: m.min(a, b),          [R, R],  "min of two.")
row("_maximum",  "a b",   "maximum",      select_rule,                                               lambda m, a, b: m.max(a, b),          [R, R],  "max of two.")
row("_power",    "x p",   "power",        pow_rule,                                                  lambda m, x, p: m.power(x, p),        [P, R],  "pow by the C library.")
row("_logaddexp", "a b",  "logaddexp",    logaddexp_rule,                                            lambda m, a, b: m.logaddexp(a, b),    [R, R],  "logaddexp by numpy.")
row("_sech2",    "x",     sech2_formula,  lambda g, y, x: (-(g * y * f.tanh(x) * 2.0),),           lambda m, x: 1/m.cosh(x)/m.cosh(x),          [R],     "1/cosh(x)^2.")
row("_one_less_square", "x", lambda x: (1.0 - x) * (1.0 + x), lambda g, y, x: (-(g * x * 2.0),),             lambda m, x: 1 - x*x,                 [U],     "1 - x^2, accurate near 1; its slope near 0.")
row("_bell",    "x",     gauss(1.0),     lambda g, y, x: (-(g * y * x * 2.0),),                     lambda m, x: m.exp(-x*x),             [R],     "exp(-x^2).")
row("_gauss",    "x",     gauss(0.5),     lambda g, y, x: (-(g * y * x),),                           lambda m, x: m.exp(-x*x/2),           [R],     "exp(-x^2/2).")
row("_expsq",   "x",     gauss(-1.0),    lambda g, y, x: (g * y * x * 2.0,),                        lambda m, x: m.exp(x*x),              [R],     "exp(x^2).")
row("_erfc",     "x",     "special.erfc", lambda g, y, x: (-(g * f._bell(x) * ERF),),               lambda m, x: m.erfc(x),               [R],     "erfc by scipy: loses digits in its right tail.")
row("_erfcx",    "x",     "special.erfcx", lambda g, y, x: (-(g * f._ierfcx(1.0, x) * 2.0),),         lambda m, x: m.erfcx(x),              [R],     "erfcx by scipy: loses digits in its left tail.")
row("_ierfcx",   "n x",   ierfcx_formula, lambda g, y, n, x: (None, -(g * f._ierfcx(n + 1.0, x) * (n + 1.0) * 2.0)), lambda m, n, x: m.ierfcx(n, x), [(0.0, 4.0), R], "exp(x^2) times the n-th repeated integral of erfc (DLMF 7.18.2).")
row("_sinc",     "n x",   sinc_formula,   lambda g, y, n, x: (None, g * f._sinc(n + 1.0, x)),        lambda m, n, x: m.dsinc(n, x),        [(0.0, 4.0), R], "n-th derivative of sinc.")
row("_digamma_drop", "n x a", digamma_drop_formula, lambda g, y, n, x, a: (None, g * f._digamma_drop(n + 1.0, x, a), -(g * f.polygamma(n + 1.0, x + a))), lambda m, n, x, a: m.digamma_drop(n, x, a), [(0.0, 4.0), P, P], "n-th derivative of digamma at x less that at x + a.")
row("_gammaln",  "x",     "special.gammaln", lambda g, y, x: (g * f.digamma(x),),                    lambda m, x: m.lgamma(x),             [(3.0, inf)],             "lgamma by scipy.")
row("_zeta",     "s x",   "special.zeta", lambda g, y, s, x: (None, -(g * s * f._zeta(s + 1.0, x))), lambda m, s, x: m.zeta(s, x),         [(2.0, 20.0), P], "Hurwitz zeta function.")
# fmt: on

OVER_ROWS = {"min": "min_rows", "max": "max_rows", "logsumexp": "logsumexp_rows"}
BOOLEAN = frozenset(("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"))
OPERATORS = frozenset(("add", "sub", "mul", "div", "floordiv", "neg", *BOOLEAN))
HIDDEN = frozenset(("gather", "spread", "rows", "detach", *OVER_ROWS.values(), "prod_rows"))
CONSTANTS = {"pi": pi, "tau": 2 * pi, "e": E, "inf": inf, "nan": nan}


REDUCTIONS = frozenset(name for name, primitive in TABLE.items() if primitive.reduction == "scalar")


def new_graph(shaped: bool = True) -> Graph:
    return Graph(REDUCTIONS, shaped)


def callable_rows() -> dict[str, Primitive]:
    """What a model may call, by name and by alias."""
    found = {}
    for name, primitive in TABLE.items():
        if name not in OPERATORS and name not in HIDDEN and not name.startswith("_"):
            for spelling in (name, *primitive.aliases):
                found[spelling] = primitive
    return found
