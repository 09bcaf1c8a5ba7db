"""`gradcli batch`: plans, policies, formats; the same bits however the rows are cut."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradcli.formats.stream import Progress, Stream

pl = pytest.importorskip("polars")
MODEL = "a = 2; n = a*x; o = where(x > 0, log(x), y) + n*y"


def batch(folder: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "gradcli", "batch", *words]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, timeout=100)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    x = [None if i % 17 == 0 else float(v) for i, v in enumerate(rng.normal(0, 1, 5000))]
    text = [("plain", 'say "hi"', "two\nlines", "a,b", None)[i % 5] for i in range(5000)]
    frame = pl.DataFrame({"id": range(10**17, 10**17 + 5000), "x": x, "text": text, "y": rng.normal(0, 1, 5000)})
    frame.write_csv(tmp_path / "d.csv")
    frame.write_ndjson(tmp_path / "d.ndjson")
    frame.write_parquet(tmp_path / "d.parquet")
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_any_cut_gives_the_same_bytes(rows: Path, kind: str) -> None:
    want = batch(rows, "-e", MODEL, f"d.{kind}", "--retain", "n").stdout
    assert want
    for flags in (("--chunk-rows", "1000"), ("--chunk-rows", "7", "-j", "1"), ("-j", "3", "--chunk-rows", "999")):
        assert batch(rows, "-e", MODEL, f"d.{kind}", "--retain", "n", *flags).stdout == want


def test_formats_hold_the_same_numbers(rows: Path) -> None:
    found = {}
    for kind in ("csv", "ndjson", "parquet"):
        for out in ("parquet", "csv"):
            done = batch(rows, "-e", MODEL, f"d.{kind}", "-o", f"o.{out}", "--keep", "id,text")
            assert done.returncode == 0, done.stderr
            frame = getattr(pl, f"read_{out}")(rows / f"o.{out}")
            found[kind, out] = frame.select("o", "do_da", "do_dx", "do_dy").to_numpy().tobytes()
            assert frame["id"].cast(pl.Int64).to_list() == list(range(10**17, 10**17 + 5000))
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("zero", ["-0", "-0.0", "-0e0", "0", "0.0", " -0 "])
def test_zero_keeps_its_sign_in_every_format(tmp_path: Path, zero: str) -> None:
    (tmp_path / "d.csv").write_text(f"x\n{zero}\n")
    (tmp_path / "d.ndjson").write_text(f'{{"x":{zero}}}\n')
    (tmp_path / "e.ndjson").write_text(f'{{"y":"-0","x":{zero}, "t": "-0"}}\n')
    pl.DataFrame({"x": [float(zero)]}).write_parquet(tmp_path / "d.parquet")
    want = b"z,dz_dx\n-inf,-inf\n" if "-" in zero else b"z,dz_dx\ninf,-inf\n"
    for name in ("d.csv", "d.ndjson", "e.ndjson", "d.parquet"):
        flags = ("--keep", "none", "--out-format", "csv", "-q")
        assert batch(tmp_path, "-e", "z = 1/x", name, *flags).stdout == want


def test_files_are_one_stream(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"p{i}.csv").write_text(f"x\n{i}\n")
    assert batch(tmp_path, "-e", "2*x", "p*.csv").stdout == b"x,value,dvalue_dx\n0,0.0,2.0\n1,2.0,2.0\n2,4.0,2.0\n"
    (tmp_path / "p1.csv").write_text("x\n1\nbad\n")
    assert b"p1.csv:3: data row 2, column `x`" in batch(tmp_path, "-e", "2*x", "p*.csv").stderr
    (tmp_path / "p2.csv").write_text("z\n1\n")
    assert b"the header is not that of p0.csv" in batch(tmp_path, "-e", "2*x", "p0.csv", "p2.csv").stderr


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_both_ways(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "d.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(1000)))
    plain = batch(tmp_path, "-e", "x^2", "d.csv").stdout
    assert batch(tmp_path, "-e", "x^2", "d.csv", "-o", f"o.csv.{suffix}", "--chunk-rows", "100").returncode == 0
    packed = (tmp_path / f"o.csv.{suffix}").read_bytes()
    assert len(packed) < len(plain)
    stream = Stream.open(str(tmp_path / f"o.csv.{suffix}"), Progress())
    assert b"".join(stream.blocks()) == plain
    assert b"value" in batch(tmp_path, "-e", "2*x", f"o.csv.{suffix}", "--keep", "none").stdout


def test_policies(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,y\n1,2\nbad,3\n4\n5,6\n")
    null = batch(tmp_path, "-e", "x*y", "d.csv", "--on-error", "null")
    assert null.stdout.decode().splitlines()[2:4] == ["bad,3,,,", "4,,,,"]
    skip = batch(tmp_path, "-e", "x*y", "d.csv", "--rejects", "r.csv", "--summary", "s.json")
    assert (skip.returncode, len(skip.stdout.splitlines())) == (0, 3)
    assert (tmp_path / "r.csv").read_text() == (
        "file,row,line,column,text,reason\n"
        "d.csv,2,3,x,bad,`bad` is not a number\n"
        'd.csv,3,4,,4,"1 field, the header has 2: `y` is missing"\n'
    )
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["rows"], summary["written"], summary["rejected"], summary["status"]) == (4, 2, 2, 0)
    for limit, status in ((1, 1), (2, 0)):
        done = batch(tmp_path, "-e", "x*y", "d.csv", "--max-errors", str(limit), "-o", "o.csv")
        assert done.returncode == status
        assert (tmp_path / "o.csv").exists() == (status == 0)


_ODD = 'x,n\n6,7,8\n1\n"a"b,1\n\xff,2\n3,oops\n2,"un\n'.encode("latin-1")
_LINES = b'{"x": 1}\n oops \n{"x": 2, "x": 3}\n[1]\n{"x": 4, "new": 5}\n{"x": "\\ud800"}\n'


@pytest.mark.parametrize(
    ("name", "data", "flags", "cut", "rejected"),
    [
        ("d.csv", _ODD, (), 4, 6),
        ("d.csv", _ODD, ("--chunk-rows", "1", "-j", "2"), 4, 6),
        ("d.tsv", _ODD.replace(b",", b"\t"), (), 2, 6),
        ("d.ndjson", _LINES, (), 2, 4),
        ("d.ndjson", _LINES, ("--out-format", "csv"), 4, 5),
        ("d.ndjson", _LINES, ("--keep", "x"), 3, 4),
        ("d.csv", b"x,n\n1\n2,oops\n", (), 0, 2),
    ],
)
def test_nothing_is_cut_silently(
    tmp_path: Path, name: str, data: bytes, flags: tuple[str, ...], cut: int, rejected: int
) -> None:
    """Rows that stay without some of their text are counted; `--rejects` has them whole."""
    (tmp_path / name).write_bytes(data)
    run = ("-e", "z = x*n" if name != "d.ndjson" else "z = x", name, "--on-error", "null", "-q", *flags)
    plain = batch(tmp_path, *run, "--summary", "s.json")
    assert plain.returncode == 0, plain.stderr
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["cut"], summary["rejected"]) == (cut, rejected)
    said = f"{cut} rows are written without the text that does not fit, first {name}:"
    assert (said in plain.stderr.decode()) == bool(cut)
    listed = batch(tmp_path, *run, "--rejects", "r.csv")
    assert (listed.stdout, listed.stderr) == (plain.stdout, b"")
    assert (tmp_path / "r.csv").read_text().count("\n") == rejected + 1
    assert batch(tmp_path, *run, "--strict").returncode == bool(cut)


@pytest.mark.parametrize(
    ("flags", "status", "error"),
    [
        ((), 2, "d.csv:3: data row 2, column `x`: `oops` is not a number"),
        (
            ("--max-errors", "0"),
            1,
            "more bad rows than the 0 that `--max-errors` allows; the last: d.csv:3: data row 2",
        ),
        (("--on-error", "skip"), 0, None),
    ],
)
def test_the_summary_says_what_stopped_the_run(
    tmp_path: Path, flags: tuple[str, ...], status: int, error: str | None
) -> None:
    (tmp_path / "d.csv").write_text("x\n1\noops\n3\n")
    assert batch(tmp_path, "-e", "x", "d.csv", "--summary", "s.json", *flags).returncode == status
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["status"], summary["rejected"]) == (status, 1)
    assert summary["error"] == error or (error and summary["error"].startswith(error))


def test_the_plan_as_an_object(tmp_path: Path) -> None:
    words = ("-e", "a = 2; b = 1/0; z = a*x + b*y", "-", "--rename", "x=Total price", "--wrt", "x", "--dry-run")
    done = batch(tmp_path, *words, "--json", stdin=b"id,Total price,y\n1,2,3\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "schema": 1,
        "columns": {"x": "Total price", "y": "y"},
        "values": {"a": 2.0, "b": "Infinity"},
        "passes": ["id", "Total price", "y"],
        "results": ["z", "dz_dx"],
    }
    plain = batch(tmp_path, *words, stdin=b"id,Total price,y\n1,2,3\n")
    assert plain.stdout.decode().splitlines()[:3] == ["column `Total price` -> `x`", "column `y` -> `y`",
                                                      "`a` = 2.0 in every row"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "flags"),
    [("d.ndjson", flags) for flags in (("--header", "x"), ("--delimiter", ";"), ("--decimal-comma",))]
    + [("d.parquet", flags) for flags in (("--header", "x"), ("--delimiter", ";"), ("--encoding", "latin-1"))],
)
def test_a_flag_that_means_nothing_for_the_format(tmp_path: Path, name: str, flags: tuple[str, ...]) -> None:
    (tmp_path / "d.ndjson").write_text('{"x": 1}\n')
    pl.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "d.parquet")
    done = batch(tmp_path, "-e", "x", name, *flags)
    assert (done.returncode, done.stdout) == (2, b"")
    kind = "NDJSON" if name == "d.ndjson" else "Parquet"
    assert f"gradcli: error: `{flags[0]}` means nothing for {kind}\n" in done.stderr.decode()


def test_too_many_bad_rows_have_a_remedy_that_helps(tmp_path: Path) -> None:
    said = batch(tmp_path, "-e", "x", "-", "--max-errors", "0", stdin=b"x\noops\n").stderr
    assert b"--on-error" not in said
    assert b"help: `--rejects FILE` lists them, `--max-errors` with a larger number bears them" in said


@pytest.mark.parametrize("outputs", ["z,n", "n,z"])
def test_a_retained_name_may_be_an_output_too(tmp_path: Path, outputs: str) -> None:
    words = ("-e", "n = x^2; z = 2*n", "-", "--of", outputs, "--retain", "n", "--out-format", "ndjson")
    done = batch(tmp_path, *words, stdin=b"x\n3\n")
    found = json.loads(done.stdout)
    assert found == {"x": 3, "z": 18.0, "dz_dx": 12.0, "dz_dn": 2.0, "n": 9.0, "dn_dx": 6.0, "dn_dn": 1.0}


@pytest.mark.parametrize(
    ("model", "flags", "remedy"),
    [
        ("z = 2*x; w = x", ("--of", "z,w", "--names", "d_{input}"), "`--names` spells gradients otherwise"),
        ("y = 2*x", (), "`--keep` chooses what passes through"),
        (
            "z = 2*x",
            ("--names", "y{input}"),
            "`--names` spells gradients otherwise, with both {output} and {input}; `--keep`",
        ),
    ],
)
def test_two_columns_of_one_name_have_the_remedy_that_helps(
    tmp_path: Path, model: str, flags: tuple[str, ...], remedy: str
) -> None:
    done = batch(tmp_path, "-e", model, "-", *flags, stdin=b"x,y,yx\n3,1,1\n")
    assert done.returncode == 2
    assert f"help: {remedy}" in done.stderr.decode()


@pytest.mark.parametrize("flags", [(), ("--chunk-rows", "1"), ("--header", "x,y")])
def test_a_row_is_shown_as_the_file_has_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Also where its quotes were made regular, so that polars reads it as we do."""
    data = b'1,5" wide\r\n1,2, "a, b"\r\n3,4\r\n'
    data = data if "--header" in flags else b"x,y\n" + data
    done = batch(tmp_path, "-e", "x", "-", "-q", "--rejects", "r.csv", *flags, stdin=data)
    assert done.stdout == b'x,y,value,dvalue_dx\n1,"5"" wide",1.0,1.0\n3,4,3.0,1.0\n'
    listed = pl.read_csv(tmp_path / "r.csv")
    assert listed["text"].to_list() == ['1,2, "a, b"']
    stopped = batch(tmp_path, "-e", "x", "-", *flags, stdin=data)
    assert b'data row 2: 4 fields, the header has 2: `1,2, "a, b"`' in stopped.stderr


def test_a_reduction_has_the_command_that_answers_it(tmp_path: Path) -> None:
    (tmp_path / "my m.expr").write_text("w = 2")
    (tmp_path / "d.csv").write_text("x\n1\n2\n")
    for words, again in (
        (("-e", "w = 2; sum(w*x)"), "-e 'w = 2; sum(w*x)'"),
        (("my m.expr", "-e", "sum(w*x)"), "'my m.expr' -e 'sum(w*x)'"),
    ):
        said = batch(tmp_path, *words, "d.csv").stderr.decode()
        assert f"help: `gradcli grad {again} --data FILE` gives one number for the whole file" in said


def test_more_workers_than_there_can_be(tmp_path: Path) -> None:
    done = batch(tmp_path, "-e", "x", "-", "-j", "100000", stdin=b"x\n1\n")
    assert (done.returncode, b"100000 is not in the range" in done.stderr) == (2, True)


def test_a_key_that_was_not_chosen_is_no_fault(tmp_path: Path) -> None:
    done = batch(tmp_path, "-e", "z = x", "-", "--keep", "x", stdin=b'{"x": 1}\n{"x": 2, "new": 3}\n')
    assert [json.loads(line)["x"] for line in done.stdout.splitlines()] == [1, 2]


def test_gates_and_domains(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n1\n-1\n0\n")
    done = batch(tmp_path, "-e", "log(x)", "d.csv", "--max-nonfinite", "1", "-o", "o.csv", "--summary", "s.json")
    assert (done.returncode, (tmp_path / "o.csv").exists()) == (1, False)
    causes = json.loads((tmp_path / "s.json").read_text())["causes"]
    assert [(c["function"], c["rows"], c["first_row"]) for c in causes] == [("log", 2, 2)]
    done = batch(tmp_path, "-e", "domain x > 0; log(x)", "d.csv", "--domain", "--on-error", "skip")
    assert done.stdout == b"x,value,dvalue_dx\n1,0.0,1.0\n"


@pytest.mark.parametrize(
    ("model", "header", "flags", "said"),
    [
        ("sum(x)", "x", (), b"goes over all rows"),
        ("w1*x", "W1,x", (), b"--rename w1=W1"),
        ("e*x", "e,x", (), b"called like the constant `e`"),
        ("o = 2*x", "x,o", ("--keep", "o"), b"two columns of the output are called `o`"),
        ("x", "x", ("--keep", "z"), b"no column `z`"),
        ("x", "x", ("--rename", "x=z"), b"no column `z`"),
        ("x", "x", ("--names", "{out}"), b"means nothing"),
        ("x*[1,2]", "x", (), b"a list has rows of its own"),
    ],
)
def test_plans_that_fail(tmp_path: Path, model: str, header: str, flags: tuple[str, ...], said: bytes) -> None:
    done = batch(tmp_path, "-e", model, "-", *flags, stdin=f"{header}\n".encode())
    assert (done.returncode, done.stdout) == (2, b"")
    assert said in done.stderr


def test_what_binds_what(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,g,n,k,e\n1,2,3,4,5\n")
    model = "const g = 9; n = x + 1; k = 7; o = g*n*k"
    done = batch(tmp_path, "-e", model, "d.csv", "k=2", "--keep", "none")
    assert done.stdout == b"o,do_dx,do_dk\n36.0,18.0,18.0\n"
    assert b"`g` is a const" in done.stderr
    assert b"`n` is computed" in done.stderr
    renamed = batch(tmp_path, "-e", model, "d.csv", "--keep", "none", "--rename", "g=g", "--rename", "n=n")
    assert renamed.stdout == b"o,do_dn,do_dk\n24.0,8.0,6.0\n"
