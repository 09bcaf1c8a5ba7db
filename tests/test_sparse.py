"""Items of some nodes read like a dict, and a copy grows apart."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.arrays import told
from gradcli.primitives import new_graph
from gradcli.sparse import Constants, Labels

ITEMS = st.dictionaries(st.integers(0, 60), st.text(max_size=3)).map(lambda found: dict(sorted(found.items())))


@given(ITEMS, st.integers(0, 60))
def test_labels_read_like_a_dict_however_they_are_added(items, cut):
    labels, at_once = Labels(), Labels()
    for node, label in items.items():
        labels.add(node, label)
    for some in ([n for n in items if n < cut], [n for n in items if n >= cut]):
        told(at_once, np.array(some, np.intc), [items[n] for n in some])
    for found in (labels, at_once):
        assert found == items
        assert list(found) == list(items)
        assert list(found.values()) == list(items.values())
        assert len(found) == len(items)
        for node in range(-3, 65):
            assert found.get(node) == items.get(node)
            assert found.get(node, "-") == items.get(node, "-")
            assert (node in found) is (node in items)


def test_what_has_no_item_is_a_key_error():
    labels = Labels()
    labels.add(3, "x")
    for node in (-1, 0, 2, 4):
        with pytest.raises(KeyError):
            labels[node]


def test_a_number_keeps_its_decimal_and_may_be_written_otherwise():
    numbers = Constants()
    numbers.add(2, 0.5, "0.50")
    numbers.add(5, 3.141592653589793, "pi")
    assert dict(numbers) == {2: (0.5, "0.50"), 5: (3.141592653589793, "pi")}
    numbers.spell(2, "0.5000001")
    assert numbers[2] == (0.5, "0.5000001")


def test_a_copy_of_a_graph_grows_apart():
    graph = new_graph()
    x = graph.leaf("x")
    y = graph.name(graph.add("mul", x, graph.constant(2.0, "2")), "y")
    other = graph.copy()
    other.constant(3.0, "3")
    other.name(y, "z")
    assert graph.constant(4.0, "4") == len(graph) - 1
    assert graph.numbers[len(graph) - 1] == (4.0, "4")
    assert list(graph.labels.values()) == ["x", "y"]
    assert list(other.labels.values()) == ["x", "y", "z"]
    assert copy(other.numbers) == other.numbers
    assert (graph.find_number("3"), other.find_number("4")) == (-1, -1)
