"""Leaves and requires_grad, by PyTorch's rules: a leaf requires grad unless it is const or switched off; anything else
when any operand's does."""

from __future__ import annotations

from collections.abc import Iterable

from gradcli.calculus.adjoint import depends
from gradcli.language.lower import Resolved


def requires_grad(resolved: Resolved, no_grad: Iterable[str] = ()) -> bytearray:
    """For each node of the text 1 when it requires grad, else 0."""
    off = set(no_grad)
    nodes = [n.node for n in resolved.names.inputs() if n.kind != "const" and n.label not in off]
    return depends(resolved.graph, nodes, len(resolved.graph) - 1) if nodes else bytearray(len(resolved.graph))
