"""Shapes are settled when values are bound: one text, a graph for each set of columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradcli
from gradcli.calculus.specialise import specialise

X, Y = [1.0, 2.0, 4.0], [0.5, -1.0, 3.0]


def graph_of(text: str, columns=()):
    resolved = gradcli.parse(text).resolved
    output = resolved.names[gradcli.parse(text).outputs[-1]].node
    graph, at = specialise(resolved.graph, columns, [output])
    return graph, at[output]


@pytest.mark.parametrize("columns", [(), ("x",), ("y",), ("x", "y")], ids=str)
def test_an_output_is_a_column_when_a_leaf_of_its_own_is(columns):
    graph, output = graph_of("o = x*y + 1", columns)
    assert bool(graph.columns[output]) == bool(columns)
    graph, output = graph_of("o = sum(x*y) + 1", columns)
    assert not graph.columns[output]
    graph, output = graph_of("z = y; o = x*2", columns)
    assert bool(graph.columns[output]) == ("x" in columns)


def test_every_set_of_columns_gives_the_numbers_of_its_rows():
    """f(x, y, z) row by row is f of the rows, whichever of the three are columns."""
    program = gradcli.parse("n = x*y; o = where(z > 1, tanh(n), n^2/z) + max(x, y)").compile(retain=["n"])
    columns = {"x": X, "y": Y, "z": [2.0, 0.5, 1.0]}
    for chosen in itertools.product([False, True], repeat=3):
        values = {n: v if c else v[1] for (n, v), c in zip(columns.items(), chosen, strict=True)}
        result = program.run(values)
        for row in range(3):
            point = {n: v[row] if np.ndim(v) else v for n, v in values.items()}
            alone = program.run(point)
            got = [result.value, *result.gradients.values(), *result.retained.values()]
            want = [alone.value, *alone.gradients.values(), *alone.retained.values()]
            for g, w in zip(got, want, strict=True):
                assert (g[row] if np.ndim(g) else g) == w


def test_what_the_roots_do_not_need_is_left_out():
    graph, _ = graph_of("a = erf(x); b = clip(a, 0, 1); o = x + 1")
    assert "erf" not in graph.ops


def test_d_is_replaced_by_its_derivative():
    graph, _ = graph_of("o = d(sin(x), x)")
    assert "d" not in graph.ops
    assert "cos" in graph.ops


def test_composites_are_expanded_into_rows_that_have_rules():
    graph, _ = graph_of("o = mean(x)*clip(x, 0, 1)", ("x",))
    assert not {"mean", "clip"} & set(graph.ops)


def test_a_list_in_the_text_is_a_column():
    program = gradcli.parse("w = [1, 2, 3]; o = w*x").compile()
    np.testing.assert_array_equal(program.run({"x": 2.0}).value, [2, 4, 6])
    np.testing.assert_array_equal(program.run({"x": [1.0, 10.0, 100.0]}).value, [1, 20, 300])
    np.testing.assert_array_equal(program.run({"x": 2.0}).gradients["x"], [1, 2, 3])


def test_a_list_of_another_length_than_a_column_is_refused():
    with pytest.raises(gradcli.BindingError, match="different lengths"):
        gradcli.parse("w = [1, 2, 3]; o = w*x").compile().run({"x": [1.0, 2.0]})
    with pytest.raises(gradcli.GradcliError, match="different lengths"):
        gradcli.parse("w = [1, 2, 3]; v = [1, 2]; o = w*v").compile().run()


def test_one_row_is_not_broadcast():
    with pytest.raises(gradcli.BindingError, match="different lengths"):
        gradcli.parse("o = x*y").compile().run({"x": [1.0], "y": [1.0, 2.0]})


def test_a_column_that_nothing_needs_may_have_any_length():
    result = gradcli.parse("o = x*2; p = y*2").compile("o").run({"x": X, "y": [1.0]})
    np.testing.assert_array_equal(result.value, [2, 4, 8])


def test_a_default_can_be_replaced_by_a_column_and_back():
    program = gradcli.parse("x = 3; w = [1, 2]; o = sum(x*w)").compile()
    assert program.run().value == 9.0
    assert program.run({"x": [1.0, 10.0]}).value == 21.0
    assert program.run({"w": 4.0}).value == 12.0
    assert program.run({"w": [1.0, 1.0, 1.0]}).value == 9.0
    assert program.run().value == 9.0
