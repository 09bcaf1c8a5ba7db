"""Why a gradient is none: the causes of PyTorch's `.grad is None`, each in one sentence with its line and remedy.

Two of the seven cannot arise here: a `retain_grad` that came too late, since a model is differentiated anew for every
question, and an operation that returns no gradient at all. Nothing is ever overwritten or accumulated either.
Why a gradient is zero is said by `gradcli.zeros`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gradcli.calculus.adjoint import carries, depends
from gradcli.errors import BindingError, GradcliError, GradientError, shown
from gradcli.language.resolved import Name
from gradcli.leaves import requires_grad
from gradcli.primitives import BOOLEAN, TABLE
from gradcli.verdicts import Explanation
from gradcli.zeros import Reason, why_zero

if TYPE_CHECKING:
    from gradcli.api import Model
    from gradcli.compiled import Program

_MOST_FEEDERS = 6  # leaves that a remedy lists


def explain(
    model: Model,
    names: Sequence[str],
    of: str | None,
    values: dict[str, Any],
    wrt: Iterable[str] | None = None,
    retain: Iterable[str] | None = None,
    no_grad: Iterable[str] = (),
) -> list[Explanation]:
    """One explanation a name, in the order asked for (default: the order of the file).

    `retain`: what is retained (default: what the text says). Without values, or with mixed rows, the gradient is left
    out, and what is known from the text alone is still said.
    """
    labels = [model.find(n).label for n in names] or list(model.names)
    if not model.outputs and of is None:
        fact = f"{model.source.name} defines nothing that can be an output"
        raise BindingError.of(fact, help="end it with a definition or an expression")
    if retain is None:
        from gradcli.leaves import requires_grad

        requires = requires_grad(model.resolved, no_grad)
        retain = [label for label, _ in model.resolved.retained if requires[model.resolved.names[label].node]]
    program = model.compile(of, wrt, retain, no_grad=no_grad)
    gradients: dict[str, Any] = {}
    missing: GradcliError | None = None
    try:
        result = program.run(values)
        gradients = {**result.gradients, **result.retained}
    except (BindingError, GradientError) as fault:
        missing = fault
    return [_one(program, model.resolved.names[label], gradients.get(label), values, missing) for label in labels]


def _one(
    program: Program, name: Name, gradient: Any, values: dict[str, Any], missing: GradcliError | None
) -> Explanation:
    requires = bool(program.requires[name.node])
    leaf = name.kind != "intermediate" or not requires
    why, remedy, span = reason(program, name, gradient, missing)
    if gradient is not None and _is_zero(gradient):
        why, remedy, span = why_zero(program, name, program.values(values)[0])
    line = span.line if span else name.span.line
    return Explanation(name.label, leaf, requires, name.label in program.retained, gradient, why, remedy, line)


def _is_zero(gradient: Any) -> bool:
    return bool((gradient == 0).all()) if hasattr(gradient, "all") else gradient == 0


def reason(program: Program, name: Name, gradient: Any, missing: GradcliError | None = None) -> Reason:
    """Why the gradient of a name is none, or that it is there. `missing`: why nothing could be evaluated."""
    label, output = name.label, program.model.resolved.names[program.output]
    if not program.requires[name.node]:
        return cut(program.model, name, program.no_grad)
    blocked = _blocked(program, name)
    if blocked is not None:
        return blocked
    if label not in program.retained and label not in program.wanted:
        return _not_asked_for(program, name)
    if gradient is not None:
        return f"`{output.label}` depends on it", None, None
    if missing is not None and missing.diagnostics:
        first = missing.diagnostics[0]
        return f"`{output.label}` depends on it, but there is no number: {first.message}", first.help, first.span
    return f"`{output.label}` depends on it, but it was not evaluated", None, None


def _not_asked_for(program: Program, name: Name) -> Reason:
    """A leaf that `--wrt` leaves out, or an intermediate that is not retained."""
    label = name.label
    if name.kind != "intermediate":
        return "it is not among the names of `--wrt`", f"name it too: `--wrt {label}`", name.span
    if label == program.output:
        fact = (
            f"`{label}` on line {name.span.line} is the output, which is not retained: its gradient is 1 and not kept"
        )
        return fact, f"retain it with `--retain {label}`", name.span
    fact = f"`{label}` on line {name.span.line} is an intermediate and not retained"
    return fact, unretained_remedy(program, name), name.span


def unretained_remedy(program: Program, name: Name) -> str:
    leaves = feeding(program, name)
    listed = ", ".join(map(shown, leaves[:_MOST_FEEDERS])) + (", ..." if len(leaves) > _MOST_FEEDERS else "")
    return f"retain it with `--retain {name.label}`, or read the leaves that feed it: {listed}"


def feeding(program: Program, name: Name) -> list[str]:
    """The leaves that require grad and feed a name."""
    resolved = program.model.resolved
    marks = resolved.graph.reachable((name.node,))
    leaves = (n for n in resolved.names.inputs() if n.kind != "const")
    return [n.label for n in leaves if marks[n.node] and program.requires[n.node]]


def cut(model: Model, name: Name, no_grad: Iterable[str]) -> Reason:
    """Why a name does not require grad, how to change it, and where."""

    label, off = name.label, set(no_grad)
    if label in off:
        return f"`--no-grad {label}` switched it off", f"leave out `--no-grad {label}`", None
    if name.kind == "const":
        return f"`const` on line {name.span.line} switched it off", f"write `{label} = ...` without `const`", name.span
    graph = model.resolved.graph
    marks = graph.reachable((name.node,))
    live = requires_grad(model.resolved, off)
    for node in range(name.node, -1, -1):
        if marks[node] and not live[node] and any(live[a] for a in graph.arguments(node)):
            return _ended(model, node, [bool(live[a]) for a in graph.arguments(node)])
    feeders = [n for n in model.resolved.names.inputs() if marks[n.node]]
    return _fed_by(name, [n for n in feeders if n.label in off], [n for n in feeders if n.kind == "const"])


def _fed_by(name: Name, off: Sequence[Name], consts: Sequence[Name]) -> Reason:
    """A name that nothing but constants feeds."""
    if off:
        flags = " ".join(f"--no-grad {n.label}" for n in off[:_MOST_FEEDERS])
        return f"no leaf that feeds it requires grad: `{flags}`", f"leave out `{flags}`", name.span
    if consts:
        first = consts[0]
        listed = ", ".join(f"{shown(n.label)} on line {n.span.line}" for n in consts[:_MOST_FEEDERS])
        return f"it depends only on `const` {listed}", f"write `{first.label} = ...` without `const`", first.span
    return "it depends on numbers only", "make one of them a leaf: give it a name on a line of its own", name.span


def _ended(model: Model, node: int, flows: Sequence[bool]) -> Reason:
    """A node that ends the gradient: a detach, a condition, an order. `flows`: the arguments it would have reached."""
    graph, span = model.resolved.graph, model.resolved.node_span(node)
    where = f" on line {span.line}" if span else ""
    op = graph.ops[node]
    if op == "detach":
        return f"`detach`{where} cuts it off", "take the `detach` away", span
    return f"it goes only into {_role(op, flows.index(True))}{where}, which carries no gradient", _elsewhere(op), span


def _role(op: str, place: int) -> str:
    if op in BOOLEAN:
        return "a comparison or condition"
    if op == "where":
        return "the condition of `where`"
    if op in TABLE and len(TABLE[op].arguments) > 1:
        argument = TABLE[op].arguments[place].rstrip("*")
        return f"the order `{argument}` of `{op}`" if place == 0 else f"`{argument}` of `{op}`"
    return f"`{op}`"


def _elsewhere(op: str) -> str:
    if op in BOOLEAN or op == "where":
        return "a step has no slope: use a smooth one, such as `sigmoid`, where a slope is wanted"
    return "use it where it has a slope too"


def paths(program: Program, name: Name) -> Iterator[tuple[int, list[bool]]]:
    """Nodes between a name and the output that use it, and which of their arguments its gradient reaches."""
    resolved = program.model.resolved
    graph = resolved.graph
    output = resolved.names[program.output].node
    reach, flows = graph.reachable((output,)), depends(graph, (name.node,), output)
    for node in range(name.node + 1, output + 1):
        if reach[node]:
            reached = [bool(flows[a]) for a in graph.arguments(node)]
            if any(reached):
                yield node, reached


def _blocked(program: Program, name: Name) -> Reason | None:
    """Why the output does not depend on a name that requires grad; None when it does."""
    resolved = program.model.resolved
    graph, output = resolved.graph, resolved.names[program.output]
    if name.node > output.node or not graph.reachable((output.node,))[name.node]:
        fact = f"it is unused: `{output.label}` does not depend on it"
        return fact, f"use `{name.label}` on the way to `{output.label}`", name.span
    flows = depends(graph, (name.node,), output.node)
    if flows[output.node]:
        return None
    ends = [(node, reached) for node, reached in paths(program, name) if not flows[node]]
    detached = [node for node, _ in ends if graph.ops[node] == "detach"]
    if detached and len(detached) == len(ends):
        lines = sorted({span.line for node in detached if (span := resolved.node_span(node))})
        where = f" on line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}" if lines else ""
        fact = f"every path to `{output.label}` is detached by `detach`{where}"
        return fact, "take the `detach` away", resolved.node_span(detached[0])
    if not ends:
        return None
    node, reached = next(((n, r) for n, r in ends if graph.ops[n] != "detach"), ends[0])
    flow = carries(graph.ops[node], len(reached))
    return _ended(program.model, node, [r and not c for r, c in zip(reached, flow, strict=True)])
