"""Each operation of the machine graph over vectors, with the special values of the ufunc that numpy uses for it."""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan

from gradcli.engine.native import host, vectormath
from gradcli.engine.native.emit import Body, Value
from gradcli.primitives import TABLE

Operation = Callable[..., Value]
_LIBRARY = {  # what neither LLVM nor vectormath computes: the names of the C library
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "cbrt": "cbrt", "log2": "log2", "log10": "log10", "hypot": "hypot", "_power": "pow",
    "erf": "erf",
}  # fmt: skip
_SCIPY = {"digamma": "psi"}  # ufuncs that scipy calls otherwise in its C interface


class Missing(Exception):
    """An operation without native form on this machine; the argument is its name."""


def _truth(x: Value) -> Value:
    return x if x.kind == "c" else x.compare("une", 0.0)


def _compared(predicate: str) -> Operation:
    return lambda a, b: a.compare(predicate, b)


def _number(x: Value) -> Value:
    return x.select(1.0, 0.0) if x.kind == "c" else x


def _rounded(name: str) -> Operation:
    return lambda x: x.code.intrinsic(name, x)


def _sign(x: Value) -> Value:
    return (x > 0.0).select(1.0, (x < 0.0).select(-1.0, x.is_nan().select(x, 0.0)))


def _maximum(a: Value, b: Value) -> Value:
    """The second of two zeros, as the instruction of x86 and so numpy."""
    return ((a > b) | a.is_nan()).select(a, b)


def _minimum(a: Value, b: Value) -> Value:
    return ((a < b) | a.is_nan()).select(a, b)


def _fmod(a: Value, b: Value) -> Value:
    """Exact where the quotient is below 2^52: it is then at most one too large, and the fma leaves nothing out."""
    quotient = a.code.intrinsic("trunc", a / b)
    rest = quotient.fma(-b, a)
    over = rest.compare("une", 0.0) & _differ(rest < 0.0, a < 0.0)
    rest = over.select(rest + abs(b).copysign(a), rest).copysign(a)
    small = (abs(quotient) < 2.0**52) & (abs(b) >= 1e-290) & (abs(b) < 1e300)
    return a.code.unlikely(~small, rest, a.code.module.each("fmod", 2), a, b)


def _divided(a: Value, b: Value) -> tuple[Value, Value]:
    """(a // b, a % b) as numpy's npy_divmod."""
    rest = _fmod(a, b)
    quotient = (a - rest) / b
    some = rest.compare("une", 0.0)
    wrong = some & _differ(b < 0.0, rest < 0.0)
    modulus = some.select(wrong.select(rest + b, rest), b.code.number(0.0).copysign(b))
    quotient = wrong.select(quotient - 1.0, quotient)
    whole = quotient.floor()
    whole = (quotient - whole > 0.5).select(whole + 1.0, whole)
    whole = quotient.compare("une", 0.0).select(whole, a.code.number(0.0).copysign(a / b))
    zero = b.compare("oeq", 0.0)
    return zero.select(a / b, whole), zero.select(nan, modulus)


def _differ(a: Value, b: Value) -> Value:
    return a.code.emit("c", "xor {c} {0}, {1}", a, b)


def _logaddexp(a: Value, b: Value) -> Value:
    """As numpy's npy_logaddexp, with the rounding error of the difference put back: exp multiplies it by its size."""
    difference = a - b
    back = difference + b
    error = (a - back) - (b - (back - difference))
    above = difference > 0.0
    power = vectormath.exp(-abs(difference))
    share = power * above.select(-error, error)
    top = above.select(a, b)
    found = top + vectormath.log1p(share.is_nan().select(power, power + share))
    found = difference.is_nan().select(difference, found)
    return a.compare("oeq", b).select(a + log(2.0), found)


_OWN: dict[str, Operation] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "lt": _compared("olt"),
    "le": _compared("ole"),
    "gt": _compared("ogt"),
    "ge": _compared("oge"),
    "eq": _compared("oeq"),
    "ne": _compared("une"),
    "and": lambda a, b: _truth(a) & _truth(b),
    "or": lambda a, b: _truth(a) | _truth(b),
    "not": lambda a: ~_truth(a),
    "where": lambda c, a, b: _truth(c).select(a, b),
    "_taint": lambda x, y: y.is_nan().select(nan, x),
    "_number": _number,
    "abs": abs,
    "sign": _sign,
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "round": _rounded("rint"),
    "trunc": _rounded("trunc"),
    "sqrt": lambda x: x.sqrt(),
    "copysign": lambda x, y: x.copysign(y),
    "_minimum": _minimum,
    "_maximum": _maximum,
    "fmod": _fmod,
    "mod": lambda a, b: _divided(a, b)[1],
    "floordiv": lambda a, b: _divided(a, b)[0],
    "_logaddexp": _logaddexp,
    **vectormath.FUNCTIONS,
}
_NEEDS = {"fmod": "fmod", "mod": "fmod", "floordiv": "fmod", **vectormath.NEEDS}


def apply(code: Body, op: str, arguments: list[Value]) -> Value:
    """The vector of an operation. Raises Missing."""
    found: Value | None = None
    if op in _OWN:
        if host.has_symbol(_NEEDS[op]) if op in _NEEDS else True:
            return _OWN[op](*arguments)
    elif op in _LIBRARY:
        name = _LIBRARY[op]
        found = host.vector_function(code, name, *arguments) or host.lanes(code, name, *arguments)
    ufunc = TABLE[op].ufunc or ""
    if found is None and ufunc.startswith("special."):
        name = ufunc.removeprefix("special.")
        found = host.special_function(code, _SCIPY.get(name, name), *arguments)
    if found is None:
        raise Missing(op)
    return found
