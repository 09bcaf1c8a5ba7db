"""Calls of built-in functions: the row that a number of arguments means, and what to say when there is none."""

from __future__ import annotations

from gradcli.errors import shown
from gradcli.language.scope import Place, Scope, Stop
from gradcli.primitives import OVER_ROWS, Primitive


def row_for(scope: Scope, name: str, count: int, place: Place, name_place: Place) -> str:
    """The name of the row that a call of this many arguments means. Raises Stop, with the error recorded."""
    if name == "detach":
        if count == 1:
            return "detach"
        raise scope.fail(f"`detach` takes 1 argument, got {count}", place, "write `detach(x)`")
    primitive = scope.rows.get(name)
    if primitive is None:
        raise no_function(scope, name, name_place)
    if count == 1 and primitive.name in OVER_ROWS:
        return OVER_ROWS[primitive.name]
    wanted = len(primitive.arguments)
    if count == wanted or (primitive.variadic and count > wanted):
        return primitive.name
    if primitive.name == "log" and count == 2:
        remedy = "tools disagree on the order of log(x, base): write `log(x)/log(base)`"
        raise scope.fail("`log` takes 1 argument, got 2", place, remedy)
    signature = name + primitive.signature.removeprefix(primitive.name)
    raise scope.fail(f"{shown(name)} takes {_count(primitive)}, got {count}", place, f"write `{signature}`")


def no_function(scope: Scope, name: str, place: Place) -> Stop:
    """A name before a bracket that is no function: a variable next to a bracket, or a mistyped function."""
    times = f"to multiply write `{name}*(...)`" if len(name) <= 60 else "to multiply write `*`"
    if name in scope.nodes or name in scope.lines or name in scope.bindings or name in scope.variables:
        return scope.fail(f"{shown(name)} is a variable, not a function", place, times)
    near = scope.hint(name, [*scope.rows, *scope.functions, "d", "detach"])
    remedy = f"{near} T{times[1:]}" if near else f"see `gradcli functions`; {times}"
    return scope.fail(f"unknown function {shown(name)}", place, remedy)


def counted(number: int) -> str:
    """`1 argument`, `2 arguments`."""
    return f"{number} argument{'s' * (number != 1)}"


def _count(primitive: Primitive) -> str:
    if not primitive.variadic:
        return counted(len(primitive.arguments))
    return f"at least {counted(1 if primitive.name in OVER_ROWS else len(primitive.arguments))}"
