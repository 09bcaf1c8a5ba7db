"""What the words of a command line name."""

from __future__ import annotations

import gzip
import io
import shlex
import sys
from pathlib import Path

import pytest

from gradcli.cli import inputs


def give(monkeypatch, data: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# ---- data where a model is expected ----------------------------------------------------------------------------------

TABLES = {
    "rows.csv": b"x,y\n1,2\n3,4\n",
    "text.csv": b"x\n1\n2\n",
    "semicolons.csv": b"x;y\n1;2\n",
    "missing.csv": b"x,y\nNA,\n",
    "rows.txt": b"x,y\n1,2\n3,4\n",
    "quoted": b'"the x","y"\n"1","2"\n',
    "no_header.dat": b"1.5,2e-3\n3,4\n",
    "tabs.dat": b"x\ty\n\n-1\t.5\n",
    "rows.ndjson": b'{"x": 1}\n',
    "rows.json": b'[{"x": 1}]\n',
    "rows.csv.gz": gzip.compress(b"x,y\n1,2\n"),
    "packed": gzip.compress(b"x,y\n1,2\n"),
    "rows.parquet": b"PAR1\x15\x04",
    "sheet.xlsx": b"PK\x03\x04\x14",
}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_no_model(cli, tmp_path, monkeypatch, name):
    monkeypatch.setattr("gradcli.language.lower.lower", None)  # not a row of it is parsed
    path = tmp_path / name
    path.write_bytes(TABLES[name])
    found = cli("grad", str(path), "x=1")
    assert (found.status, found.out) == (2, "")
    assert f"holds data, not a model\nhelp: `--data {shlex.quote(str(path))}` reads it" in found.err


def test_each_command_says_where_its_data_go(cli, tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(TABLES["rows.csv"])
    assert f"help: `--against {shlex.quote(str(path))}` reads it" in cli("check", str(path)).err
    assert "help: the model comes first: `gradcli batch MODEL DATA`" in cli("batch", str(path), str(path)).err
    assert "help: name a model, or give an expression with -e" in cli("diff", str(path)).err


def test_table_on_standard_input_is_no_model(cli, monkeypatch):
    give(monkeypatch, TABLES["rows.csv"])
    assert "`-` holds data, not a model\nhelp: `--data -` reads it" in cli("grad", "-").err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "x = 2; x^2"),
        ("m.expr", "output o, p\nretain a, b\na = 1; b = a*2; o = b*2; p = b*3"),
        ("m.expr", "# one, two\n# 3, 4\nx = 2; x^2"),
        ("m.expr", "f(a, b) = a*b\nx = 2; f(x, 3)"),
        ("m.expr", "x = [1, 2,\n3, 4]\nsum(x)"),
        ("m.expr", "[1, 2,\n3, 4,\n5]*2"),
        ("m.expr", "x\n1"),
    ],
)
def test_model_is_none_of_these(cli, tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert "holds data" not in cli("grad", str(path)).err


def test_pipe_is_read_once(tmp_path):
    assert inputs._head("/dev/null") == b""
    assert inputs._head(str(tmp_path)) == b""
    assert inputs._head(__file__) == Path(__file__).read_bytes()[:4096]


# ---- files and values ------------------------------------------------------------------------------------------------


def test_file_whose_name_gives_a_value_is_pointed_at(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run=3.expr").write_text("x = 2; x^2")
    hint = "help: `run=3.expr` gives a value; the file of that name is `./run=3.expr`"
    assert f"error: no model\n{hint}" in cli("grad", "run=3.expr").err
    for command in ("grad", "check", "diff", "explain"):
        found = cli(command, "-e", "x^2", "x=1", "run=3.expr")
        assert (found.status, hint in found.err) == (2, True)
    assert "help: name a file, `-` for standard input" in cli("grad", "run=4.expr").err
    assert cli("grad", "./run=3.expr").value() == 4


def test_standard_input_that_is_closed_is_no_terminal(cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "error: standard input is closed\n" in cli("grad", "-").err
    assert "error: standard input is closed\n" in cli("check", "-e", "x = 2; x^2", "--against", "-").err


@pytest.mark.parametrize("words", [("grad", "-", "--data", "-"), ("check", "-", "--against", "-"), ("grad", "-", "-")])
def test_standard_input_is_read_once(cli, monkeypatch, words):
    give(monkeypatch, b"x = 2; x^2")
    found = cli(*words)
    assert (found.status, found.out) == (2, "")
    assert "error: standard input can be read once\nhelp: name `-` once" in found.err
