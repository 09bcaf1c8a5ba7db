"""Every kind of wrong input of issue 2: status 2, one clear message, nothing on stdout. What overflows is a value."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import gradcli
from gradcli.errors import FileError

TEXTS = {
    "unknown function": ("y = taanh(x)", "did you mean `tanh`?"),
    "wrong number of arguments": ("y = atan2(x)", "`atan2` takes 2 arguments, got 1"),
    "missing values": ("y = p + q", "`q` has no value"),
    "open bracket": ("y = (x + 1", "`(` is never closed"),
    "closing bracket": ("y = x + 1)", "closing `)`"),
    "wrong bracket": ("y = (x + 1]", "closes a bracket opened with"),
    "product without a sign": ("y = 2x", "`2*x`"),
    "malformed number": ("y = 1.2.3*x", "malformed number"),
    "unfinished exponent": ("y = 2e", "malformed number"),
    "hexadecimal": ("y = 0x10", "write `16`"),
    "other digits": ("y = ٣*x", "is not one of the digits 0 to 9"),
    "equals in an expression": ("y = x*(z = 2)", "write `==` to compare"),
    "retain of an unknown name": ("x = 1; y = x*2; retain q", "unknown name `q`"),
    "retain without gradient": ("x = 1; n = detach(x); y = x*n; retain n", "does not require grad"),
    "recursion": ("f(x) = f(x - 1); y = f(1)", "calls itself"),
    "columns of two lengths": ("x = [1, 2]; w = [1, 2, 3]; y = sum(x*w)", "columns of different lengths"),
    "mixed rows": ("x = [1, 2]; y = x - mean(x)", "`mean`"),
    "use above the definition": ("y = x*2\nx = 1", "used on line 1 but defined on line 2"),
    "column in a column": ("x = [[1, 2], [3]]; y = sum(x)", "a list inside a list"),
    "empty column": ("x = []; y = sum(x)", "empty list"),
    "nothing": ("", "holds no expression"),
    "a comment": ("# y = x", "holds no expression"),
    "a function alone": ("f(x) = x", "nothing that can be an output"),
    "keyword": ("and = 3", "reserved word"),
    "assignment of another language": ("x += 1", "`+=` is not an operator"),
    "text in quotes": ("y = 'a'", "there is no text in quotes"),
}


@pytest.mark.parametrize(("text", "words"), TEXTS.values(), ids=TEXTS)
def test_wrong_text(grad, text, words):
    found = grad(text, *(["x=1"] if "x" in text and "x =" not in text and "f(x" not in text else []))
    assert (found.status, found.out) == (2, "")
    assert words in found.err
    assert "internal error" not in found.err


def test_reduction_is_named_where_rows_would_mix(grad):
    found = grad("x = [1, 2]\ny = x - sum(x)")
    assert (found.status, found.out) == (2, "")
    assert "-e:2:9: error: a gradient for each row would mix rows: it passes through `sum`" in found.err


def test_all_missing_values_at_once(grad):
    found = grad("a*b + c", "b=1")
    assert found.status == 2
    assert "-e:1:1: error: `a` has no value" in found.err
    assert "-e:1:7: error: `c` has no value" in found.err


def test_binding_that_nothing_uses(grad):
    found = grad("alpha*2", "alpha=1", "alhpa=2")
    assert (found.status, found.out) == (2, "")
    assert "`alhpa` is no name that the model uses" in found.err
    assert "did you mean `alpha`?" in found.err


# ---- files -----------------------------------------------------------------------------------------------------------


def write(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def test_missing_file_offers_the_nearest(cli, tmp_path):
    write(tmp_path, "neuron.expr", b"x = 1")
    found = cli("grad", str(tmp_path / "neurn.expr"))
    assert (found.status, found.out) == (2, "")
    assert "did you mean `neuron.expr`?" in found.err


def test_folder_without_models(cli, tmp_path):
    write(tmp_path, "readme.txt", b"x = 1")
    found = cli("grad", str(tmp_path))
    assert (found.status, found.out) == (2, "")
    assert "no *.expr files" in found.err


def test_folder_is_read_in_order_with_its_folders(cli, tmp_path):
    for name in ("b.expr", "a/z.expr", "a/y.expr"):
        write(tmp_path, name, b"x = 2; x^2")
    found = cli("grad", str(tmp_path), "--json")
    assert [Path(r["model"]).relative_to(tmp_path).as_posix() for r in found.records] == [
        "a/y.expr",
        "a/z.expr",
        "b.expr",
    ]


def test_folder_called_like_a_model(cli, tmp_path):
    write(tmp_path, "m.expr/n.expr", b"x = 2; x^2")
    assert cli("grad", str(tmp_path / "m.expr")).value() == 4


def test_bytes_that_are_not_utf8(cli, tmp_path):
    path = write(tmp_path, "m.expr", b"x = 1\ny = x*\xff2\n")
    found = cli("grad", path)
    assert (found.status, found.out) == (2, "")
    assert f"{path}:2:7: error: not UTF-8: byte 0xff" in found.err


def test_unreadable_file(cli, tmp_path, monkeypatch):
    path = write(tmp_path, "m.expr", b"x = 1")

    def refuse(*given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gradcli.source.open", refuse, raising=False)
    found = cli("grad", path)
    assert (found.status, found.out) == (2, "")
    assert "permission denied" in found.err
    with pytest.raises(FileError):
        gradcli.load(path)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"# nothing\n"])
def test_empty_file(cli, tmp_path, data):
    found = cli("grad", write(tmp_path, "m.expr", data))
    assert (found.status, found.out) == (2, "")
    assert "holds no expression" in found.err


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfx = 3\r\ny = x^2\r\n", b"x = 3\ry = x^2\r", b"x = 3\n\ny = x^2"])
def test_byte_order_mark_and_line_ends(cli, tmp_path, data):
    found = cli("grad", write(tmp_path, "m.expr", data))
    assert (found.value("y"), found.slope("x")) == (9, 6)


def test_bad_model_among_good_ones(cli, tmp_path):
    good = write(tmp_path, "good.expr", b"x = 2; y = x^2")
    bad = write(tmp_path, "bad.expr", b"x = 2; y = x^")
    empty = write(tmp_path, "empty.expr", b"")
    found = cli("grad", good, bad, empty, str(tmp_path / "none.expr"), good, "--json")
    assert found.status == 2
    assert [record["model"] for record in found.records] == [good, good]
    for path in (bad, empty, "none.expr"):
        assert path in found.err


def test_status_is_the_worst(cli, tmp_path):
    good = write(tmp_path, "good.expr", b"x = 2; n = x*1; y = n^2")
    bad = write(tmp_path, "bad.expr", b"x^")
    assert cli("grad", good, "--print", "n.grad").status == 1
    assert cli("grad", bad, good, "--print", "n.grad").status == 2
    assert cli("grad", good, bad, "--print", "n.grad").status == 2


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["1/x", "log(-1 - x)", "exp(1e6 + x)", "x*inf", "0/x", "x^-1", "sqrt(x - 1)", "asin(2 + x)", "mod(1, x)"]
)
@pytest.mark.parametrize("point", ["0", "[0, 0]"])
def test_overflow_and_domain_errors_are_values_without_warnings(grad, text, point):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        found = grad(text, f"x={point}", "--json", "-q")
    assert (found.status, found.err) == (0, "")


def test_threads_warn_neither():
    rows = np.linspace(-1, 1, 300_000)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        found = gradcli.parse("y = log(x)/x + sqrt(x)").compile().run({"x": rows}, threads=os.cpu_count())
    assert np.isnan(found.value[0])  # type: ignore[index]
