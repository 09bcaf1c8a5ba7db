"""`--digits`: every leaf counts as it is written."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("x = [0.1, 0.3]; z = [0.2, 0.1]; x + z",), "[0.30000000000000000000, 0.40000000000000000000]"),
        (("x + z", "x=[0.1, 0.3]", "z=[0.2, 0.1]"), "[0.30000000000000000000, 0.40000000000000000000]"),
        (("const x = [0.1, 0.3]; z = 0.2; x + z",), "[0.30000000000000000000, 0.50000000000000000000]"),
        (("x = [0.1, 1/3, pi]; x*1",), "[0.10000000000000000000, 0.33333333333333333333, 3.1415926535897932385]"),
        (("const x = [0.1, 0.2]*2 + 0.1; x*1",), "[0.30000000000000000000, 0.50000000000000000000]"),
        (("[0.1, 1/3] + 0.2",), "[0.30000000000000000000, 0.53333333333333333333]"),
    ],
)
def test_lists_are_exact_decimals_wherever_they_are_written(grad, words, want):
    assert grad(*words, "--digits", "20", "--print", "value").out == f"{want}\n"


def test_gradients_take_the_exact_decimals_of_a_list(grad):
    found = grad("x = [0.1, 0.2]; a = 0.1; o = sum(x^2)*a", "--digits", "20").rows
    assert found["x"][1] == "[0.020000000000000000000, 0.040000000000000000000]"
    assert found["a"][1] == "0.050000000000000000000"


def test_what_is_not_finite_is_spelled_as_without_digits(grad):
    text = "x = [1, -1, 0]; o = x/0"
    plain = grad(text).rows
    assert grad(text, "--digits", "20").rows == plain
    assert plain["o"] == ("[inf, -inf, nan]", "none")
    assert grad("x = 1; o = -x/0", "--digits", "20").rows == grad("x = 1; o = -x/0").rows


def test_what_is_not_finite_has_the_words_of_json(grad):
    found = grad("x = [1, -1, 0]; o = x/0", "--digits", "20", "--json", "--retain", "o").json
    assert found["value"] == ["Infinity", "-Infinity", "NaN"]
    assert found["gradients"] == {"x": ["Infinity", "Infinity", "NaN"]}
    assert found["retained"]["o"]["value"] == found["value"]
    assert grad("x = -1; o = x/0", "--digits", "20", "--json").json["value"] == "-Infinity"
