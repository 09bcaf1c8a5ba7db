"""Values on their way in: numbers and columns of any kind become floats and contiguous float64 arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.errors import BindingError
from gradcli.language.lower import Resolved
from gradcli.results import Column, Number


def evaluate_constants(resolved: Resolved, nodes: Iterable[int], arrays: Mapping[str, Column]) -> list[Number]:
    """The values of nodes that depend on numbers only; `arrays` are the columns written in the text."""
    results: list[Number] = []
    for node in nodes:
        number = resolved.graph.number(node)
        results.append(_computed(resolved, node, arrays) if number is None else number)
    return results


def _computed(resolved: Resolved, node: int, arrays: Mapping[str, Column]) -> Number:
    graph, at = specialise(resolved.graph, arrays, (node,))
    machine, placed = simplify(graph, [at[node]])
    program = schedule(machine, placed)
    own = {label: arrays[label] for label in program.column_inputs}
    return execute.run(program, own, len(next(iter(own.values()))) if own else 1)[0]


def literal_columns(resolved: Resolved) -> dict[str, Column]:
    """The columns written as lists in the text, by the label of their leaf."""
    found = {}
    graph = resolved.graph
    for node, items in graph.lists.items():
        numbers = [graph.number(i) for i in items]
        if None in numbers:
            odd = [i for i in items if graph.number(i) is None]
            known, at = specialise(graph, (), odd)
            machine, placed = simplify(known, [at[i] for i in odd])
            values = iter(execute.run(schedule(machine, placed), {}, 1))
            numbers = [next(values) if n is None else n for n in numbers]  # type: ignore[misc]
        found[graph.labels[node]] = read_only(np.array(numbers, dtype=np.float64))
    return found


def read_only(column: Column) -> Column:
    """The same numbers, which nobody can write through this array."""
    view = column.view()
    view.flags.writeable = False
    return view


def several(given: str | Iterable[str], parameter: str) -> tuple[str, ...]:
    """Names as a tuple; a str is one of them. Raises TypeError for what is no name."""
    if isinstance(given, str):
        return (given,)
    try:
        names = tuple(given)
    except TypeError:
        raise TypeError(f"`{parameter}` takes names, such as ['x', 'y'], not {type(given).__name__}") from None
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"`{parameter}` takes names, such as ['x', 'y'], not {type(name).__name__}")
    return names


_FLOAT64 = np.dtype(np.float64)
_NO_NUMBERS = frozenset("cmMSUV")  # dtype kinds: complex, times, texts, records


def as_number(label: str, value: Any) -> Number:
    """A float, or a contiguous float64 array of one dimension. Raises BindingError."""
    if type(value) is np.ndarray and value.dtype is _FLOAT64 and value.ndim == 1 and value.flags.c_contiguous:
        return value  # as most are: what follows takes four times as long
    if isinstance(value, float):
        return float(value)
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(value)
            if array.dtype.kind in _NO_NUMBERS or _is_masked(value):
                raise TypeError
            if array.dtype.kind == "O" and any(v is None or isinstance(v, str) for v in array.ravel().tolist()):
                raise TypeError
            array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BindingError.of(f"the value of `{label}` is not a number or a column of numbers") from None
    if np.ndim(value) == 0:
        return float(array.reshape(-1)[0])
    if array.ndim != 1:
        raise BindingError.of(
            f"the value of `{label}` has {array.ndim} dimensions", help="a column has one dimension: one number per row"
        )
    return array


def _is_masked(value: Any) -> bool:
    """Asked of subclasses alone: `numpy.ma` takes 8 ms to load, and nobody has a masked array without it."""
    return isinstance(value, np.ndarray) and type(value) is not np.ndarray and np.ma.isMaskedArray(value)


def check_out(out: Sequence[Any], count: int, rows: int, inputs: Iterable[Number]) -> None:
    """The arrays a caller gives for results must fit, and be none of the inputs. Raises BindingError."""
    columns = [v for v in inputs if not isinstance(v, float)]
    if len(out) != count:
        raise BindingError.of(f"`out` has {len(out)} arrays, the program has {count} columns to write")
    for array in out:
        fits = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == (rows,)
        if not fits or not array.flags.c_contiguous or not array.flags.writeable:
            raise BindingError.of(f"`out` must hold writeable contiguous float64 arrays of shape ({rows},)")
        if any(np.shares_memory(array, column) for column in columns):
            raise BindingError.of("an array of `out` shares memory with an input", help="give it an array of its own")
    if _overlap(out):
        raise BindingError.of("two arrays of `out` share memory", help="give each result an array of its own")


def _overlap(arrays: Iterable[Column]) -> bool:
    """Whether contiguous arrays share memory: next to each other by their addresses, since all pairs take long."""
    ranges = sorted((start := a.__array_interface__["data"][0], start + a.nbytes) for a in arrays)
    return any(after < end for (_, end), (after, _) in pairwise(ranges))
