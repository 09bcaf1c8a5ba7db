"""A key that stands twice in an object is seen among many lines, alike or not."""

from __future__ import annotations

import pytest

from gradcli.formats.keys import Keys

ALIKE = '{"x":1,"t":"a","y":2}\n{"x":-1.5,"t":"","y":null}\n'


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (ALIKE, True),
        (ALIKE + '{"x":1,"t":"y","y":3}\n', True),
        (ALIKE + '{"y":2,"x":1,"t":"b"}\n', True),
        (ALIKE + '{"x":1,"x":2,"y":3}\n', False),
        (ALIKE + '{"x":1,"x":"a","y":3}\n', False),
        (ALIKE + '{"x":1,"t":2,"y":3,"t":4}\n', True),
        (ALIKE + '{"x":1,"t" :2,"y":3,"y":4}\n', False),
        (ALIKE + '{"t":"a","y":2}\n{"x":1,"t":"a","y":2,"x":3}\n', False),
        (ALIKE + '{"x":1,"t":"a\\"x\\"","y":2}\n', True),
        (ALIKE + '{"x":1,"t":{"x":2},"y":2}\n', False),
        ('{"x":1,"x":2}\n{"x":3,"x":4}\n', False),
        ('{"a":{"x":1},"x":2}\n{"a":{"x":1},"x":2}\n', False),
        ('{"x":1}\n{"x":2}', True),
        ('{"x":1}\n{"x":2,"x":3}', False),
        ('{"x":1, "é":2}\n{"x":2, "\\u00e9":3, "é":4}\n', False),
        ("{}\n{}\n", True),
    ],
)
def test_each_name_once(data: str, want: bool) -> None:
    keys = Keys(data.encode())
    assert all(keys.has_once(name) for name in ("x", "y", "é")) is want


@pytest.mark.parametrize(
    ("data", "common", "has"),
    [
        (ALIKE, [b"x", b"t", b"y"], {"x", "t", "y"}),
        (ALIKE + '{"x":1,"t":"z","y":3}\n', [b"x", b"t", b"y"], {"x", "t", "y"}),
        (ALIKE + '{"x":1,"y":"z","t":3}\n', None, {"x", "t", "y"}),
        (ALIKE + '{"x":1,"t":"z","z":3}\n', None, {"x", "t", "y", "z"}),
        (ALIKE + '{"x":1,"z":"t","y":3}\n', None, {"x", "t", "y", "z"}),
        (ALIKE + '{"x":1,"t":2,"y":3,"z":4}\n', None, {"x", "t", "y", "z"}),
        (ALIKE + '{"x":1,"t":[],"y":"z"}\n', None, {"x", "t", "y"}),
        ("{}\n{}\n", [], set()),
        ('{}\n{"z":1}\n', None, {"z"}),
    ],
)
def test_keys_of_all_lines(data: str, common: list[bytes] | None, has: set[str]) -> None:
    keys = Keys(data.encode())
    assert keys.common == common
    assert {name for name in "xtyz" if keys.may_have(name)} == has
