"""A key that stands twice in an object is seen among many lines, alike or not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gradcli.cli.group import run
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


VALUES = [
    "1",
    "-0.50",
    "1e3",
    "12345678901234567890",
    "null",
    "true",
    '""',
    '"a, b"',
    '" é : "',
    '"null"',
    '"{"',
    "[1, 2]",
]


@pytest.mark.parametrize("words", [["--out-format", "csv"], ["--keep", "t,x"], ["--keep", "t", "--out-format", "csv"]])
@pytest.mark.parametrize(
    "shape", ['{{"x":{x},"t":{t},"u":{u}}}', '{{"x": {x}, "t": {t}, "u": {u}}}', '{{"t":{t} ,"x":{x}}}']
)
def test_cells_are_those_of_lines_read_one_by_one(
    shape: str,
    words: list[str],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(shape)
    for held in (VALUES[:6], VALUES[:10], VALUES):
        rows = [shape.format(x=rng.choice(VALUES[:5]), t=rng.choice(held), u=rng.choice(held)) for _ in range(200)]
        (tmp_path / "d.ndjson").write_text("\n".join(rows) + "\n", encoding="utf-8")
        made = []
        for values in (Keys.values, lambda self: None):
            monkeypatch.setattr(Keys, "values", values)
            assert run(["batch", "-e", "y = x^2", str(tmp_path / "d.ndjson"), "-q", *words]) == 0
            made.append(capfdbinary.readouterr().out)
        assert made[0] == made[1]
        monkeypatch.undo()


def test_values_of_lines_that_are_alike() -> None:
    found = Keys(b'{"x": 1.50,"t":"a, b"}\n{"x":2 , "t":""}\n').values()
    assert found is not None
    assert {name: column.to_list() for name, column in found.items()} == {"x": ["1.50", "2"], "t": ['"a, b"', '""']}
    assert Keys(b'{"x":{"y":1}}\n').values() is None
