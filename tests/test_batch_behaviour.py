"""The rows of the shared behaviour table that are about rows of data, by their identifiers, through the command."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

GRADCLI = [sys.executable, "-m", "gradcli"]


class Batch:
    """Runs `gradcli batch` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, expression: str, data: bytes | str | None, *flags: str, name: str = "data.csv", stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        words = []
        if data is not None:
            (self.folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
            words = [name]
        return subprocess.run(
            [*GRADCLI, "batch", "-e", expression, *words, *flags],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            timeout=60,
        )

    def table(self, expression: str, data: bytes | str, *flags: str, name: str = "data.csv") -> dict[str, list[str]]:
        """The columns of CSV output."""
        import csv

        csv.field_size_limit(1 << 24)
        done = self(expression, data, *flags, name=name)
        assert done.returncode == 0, done.stderr
        rows = list(csv.reader(done.stdout.decode().splitlines(keepends=True)))
        assert all(len(r) == len(rows[0]) for r in rows)
        return {n: [r[i] for r in rows[1:]] for i, n in enumerate(rows[0])}

    def error(self, expression: str, data: bytes | str, *flags: str, name: str = "data.csv") -> str:
        done = self(expression, data, *flags, name=name)
        assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
        assert not done.stdout.strip() or done.stdout.count(b"\n") <= 1
        text = done.stderr.decode()
        assert "Traceback" not in text
        assert "internal" not in text
        assert len(text) < 2000
        return text


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    return Batch(tmp_path)


def test_pb04_closed_pipe_is_silent(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(100_000)))
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m gradcli batch -e 'x^2' d.csv | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"x,value,dvalue_dx\n"
    assert done.stderr == b""
    assert done.returncode in (0, 141)


def test_pb05_dash_reads_standard_input(batch: Batch) -> None:
    data = "x\n1\n2\n"
    assert batch("x^2", None, "-", stdin=data.encode()).stdout == batch("x^2", data).stdout


@pytest.mark.parametrize(("name", "data"), [("d.csv", "x\n1\n-1\n2\n"), ("d.ndjson", '{"x":1}\n{"x":-1}\n{"x":2}\n')])
def test_pb12_outside_of_the_domain_is_a_row(batch: Batch, name: str, data: str) -> None:
    done = batch("log(x)", data, name=name)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3 + name.endswith("csv")
    assert b"1 not finite" in done.stderr
    assert b"`log(x)` in line 1" in done.stderr


def test_pb19_first_row_of_an_open_pipe(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*GRADCLI, "batch", "-e", "x^2", "-", "--in-format", "ndjson"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b'{"x":3}\n')
    process.stdin.flush()
    line = process.stdout.readline()
    assert json.loads(line)["value"] == 9.0
    process.stdin.write(b'{"x":4}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["value"] == 16.0
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdout.close()


def test_pb20_full_device(batch: Batch) -> None:
    done = batch("x^2", "x\n1\n", "-o", "/dev/full")
    assert done.returncode == 2
    assert b"cannot write /dev/full: no space left on device" in done.stderr
    with Path("/dev/full").open("wb") as full:
        (batch.folder / "d.csv").write_text("x\n1\n")
        done2 = subprocess.run(
            [*GRADCLI, "batch", "-e", "x", "d.csv"], cwd=batch.folder, stdout=full, stderr=subprocess.PIPE
        )
    assert done2.returncode == 2
    assert b"cannot write" in done2.stderr


def test_pb21_input_is_not_output(batch: Batch) -> None:
    for target in ("data.csv", "./data.csv", "link.csv"):
        if target == "link.csv":
            (batch.folder / target).symlink_to("data.csv")
        assert "same file" in batch.error("x^2", "x\n1\n2\n", "-o", target) or target == "data.csv"
        assert (batch.folder / "data.csv").read_text() == "x\n1\n2\n"


def test_pb25_lines_end_with_lf(batch: Batch) -> None:
    assert b"\r" not in batch("x^2", "x\r\n1\r\n2\r\n").stdout


def test_pc01_byte_order_mark(batch: Batch) -> None:
    found = batch.table("x*y", b"\xef\xbb\xbfx,y\n1,2\n")
    assert list(found) == ["x", "y", "value", "dvalue_dx", "dvalue_dy"]
    assert [found[n][0] for n in found] == ["1", "2", "2.0", "2.0", "1.0"]


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.csv.gz", "d.ndjson", "-"])
@pytest.mark.parametrize("flags", [(), ("--keep", "x"), ("--out-format", "ndjson"), ("--encoding", "latin-1")])
def test_a_byte_order_mark_before_a_quote(batch: Batch, name: str, flags: tuple[str, ...]) -> None:
    """The mark is no text: what follows it is read as in a file without one."""
    text = {"d.tsv": b"x\ty\n1\t2\n", "d.ndjson": b'{"x": 1, "y": 2}\n'}.get(name, b'"x","y"\n1,2\n')
    found = []
    for data in (text, b"\xef\xbb\xbf" + text):
        (batch.folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        done = batch("z = x*y", None, name, *flags, stdin=data)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]


def test_a_byte_order_mark_before_a_quote_in_grad(batch: Batch) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        (batch.folder / "d.csv").write_bytes(mark + b'"x","y"\n1,2\n')
        done = subprocess.run([*GRADCLI, "grad", "-e", "sum(x*y)*a", "a=3", "--data", "d.csv"],
                              cwd=batch.folder, capture_output=True, text=True)  # fmt: skip
        assert (done.returncode, done.stdout.split()[:2]) == (0, ["value", "6.0"])


def test_pc02_row_and_line(batch: Batch) -> None:
    text = batch.error("x^2", 'note,x\n"a\nb\nc",1\n"d",2\n"e",oops\n')
    assert "data.csv:6: data row 3, column `x`: `oops` is not a number" in text


def test_pc03_row_and_cell(batch: Batch) -> None:
    assert "data.csv:3: data row 2, column `x`: `bad` is not a number" in batch.error("2*x", "x\n1\nbad\n3\n")


def test_pc04_blank_is_not_zero(batch: Batch) -> None:
    assert batch.table("x+y", "x,y\n1,2\n,5\n")["value"] == ["3.0", ""]


def test_pc05_spaces_and_quoted_empty_are_blank(batch: Batch) -> None:
    assert batch.table("x^2", "x\n1\n   \n3\n")["value"] == ["1.0", "", "9.0"]
    assert batch.table("x^2", 'x\n1\n""\n3\n')["value"] == ["1.0", "", "9.0"]
    assert batch.table("x^2", 'x,y\n1,\n"",\n" ",\n3,4\n')["value"] == ["1.0", "", "", "9.0"]


def test_pc06_other_columns_keep_na(batch: Batch) -> None:
    found = batch.table("2*x", "country,x\nNA,1\nNO,2\n")
    assert found["country"] == ["NA", "NO"]
    assert found["value"] == ["2.0", "4.0"]


def test_pc07_long_identifiers_pass(batch: Batch) -> None:
    found = batch.table("x", "id,x\n1582218195625938945,1\n,2\n9007199254740993,3\n")
    assert found["id"] == ["1582218195625938945", "", "9007199254740993"]


def test_pc08_long_integers_in_json(batch: Batch) -> None:
    done = batch("x-6000000000000000000", '{"x":6000000000000002181}\n', name="d.ndjson")
    assert b'"x":6000000000000002181' in done.stdout
    assert json.loads(done.stdout)["value"] == 2048.0


def test_pc09_numbers_are_read_exactly(batch: Batch) -> None:
    assert batch.table("x", "x\n-15.361\n-15.361000\n0.1\n")["value"] == ["-15.361", "-15.361", "0.1"]


def test_pc10_numbers_are_written_in_full(batch: Batch) -> None:
    found = batch.table("1e-17*x + 12345678.9", "x\n0\n")
    assert found["value"] == ["12345678.9"]
    assert found["dvalue_dx"] == ["1e-17"]


@pytest.mark.parametrize("flags", [(), ("--nonfinite", "string")])
def test_pc11_json_is_strict(batch: Batch, flags: tuple[str, ...]) -> None:
    for expression in ("0*log(x)", "1/x"):
        done = batch(expression, "x\n0\n", "--out-format", "ndjson", *flags)

        def refuse(word: str) -> None:
            raise AssertionError(word)

        record = json.loads(done.stdout, parse_constant=refuse)
        assert record["value"] in ((None,) if not flags else ("NaN", "Infinity"))


def test_pc12_extra_comma(batch: Batch) -> None:
    assert "data.csv:2: data row 1: 3 fields, the header has 2: `1,2,`" in batch.error("x-y", "x,y\n1,2,\n3,4\n")


def test_pc13_short_row(batch: Batch) -> None:
    assert "data row 1: 2 fields, the header has 3: `z` is missing" in batch.error("x+y", "x,y,z\n1,2\n")


def test_pc14_duplicate_header(batch: Batch) -> None:
    assert "column `x` appears twice: columns 1 and 2" in batch.error("x+y", "x,x,y\n1,2,3\n")


def test_pc15_decimal_comma(batch: Batch) -> None:
    text = batch.error("x", 'x\n"2523,00"\n')
    assert "`2523,00` is not a number" in text
    assert "--decimal-comma" in text
    assert batch.table("x", 'x\n"2523,00"\n', "--decimal-comma")["value"] == ["2523,0"]


def test_pc16_semicolon_and_decimal_comma(batch: Batch) -> None:
    data = "x;y\n9,99;1.234,56\n"
    assert "--delimiter" in batch.error("x+y", data)
    done = batch("x+y", data, "--delimiter", ";", "--decimal-comma")
    assert done.stdout == b"x;y;value;dvalue_dx;dvalue_dy\n9,99;1.234,56;1244,55;1,0;1,0\n"


@pytest.mark.parametrize("mark", [";", ",", "\t"])
@pytest.mark.parametrize("keep", ["all", "x", "none"])
@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_results_with_a_decimal_comma_are_read_back(batch: Batch, mark: str, keep: str, format: str) -> None:
    """`10.001` beside `10,001` would be ten thousand for whoever reads them with the same flags."""
    flags = ("--decimal-comma", "--delimiter", mark)
    cells = [f'"{c}"' if mark == "," else c for c in ("10,001", "1.234.567,5", "-2", "1e-300", "NA")]
    first = batch("z = x", "x\n" + "\n".join(cells) + "\n", *flags, "--keep", keep, "-q", "--out-format", format)
    (batch.folder / "again.csv").write_bytes(first.stdout)
    flags = (flags[0], "--delimiter", "\t" if format == "tsv" else mark)
    again = batch("w = z*1", None, "again.csv", *flags, "--out-format", "ndjson", "--keep", "none", "-q")
    found = [json.loads(line)["w"] for line in again.stdout.splitlines()]
    assert found == [10.001, 1234567.5, -2.0, 1e-300, None]


def test_numbers_of_parquet_have_the_comma_of_the_results(batch: Batch) -> None:
    _parquet(batch, "d.parquet", t=["1,5"], f=[2.25], n=[7])
    done = batch("z = t*f", None, "d.parquet", "--decimal-comma", "--wrt", "f")
    assert done.stdout == b't,f,n,z,dz_df\n"1,5","2,25",7,"3,375","1,5"\n'


def test_a_group_of_thousands_does_not_begin_with_zero(batch: Batch) -> None:
    text = batch.error("x", "x\n0.123\n", "--decimal-comma")
    assert "`0.123` is not a number with a decimal comma" in text
    assert "write its point as a comma" in text


def test_pc17_no_rows(batch: Batch) -> None:
    done = batch("x+y", "x,y\n")
    assert (done.returncode, done.stdout) == (0, b"x,y,value,dvalue_dx,dvalue_dy\n")
    assert b"0 rows" in done.stderr
    done = batch("x+y", "x,y\n", "--out-format", "ndjson")
    assert (done.returncode, done.stdout) == (0, b"")


def test_pc18_empty_streams(batch: Batch) -> None:
    done = batch("x", None, "/dev/null", "--in-format", "ndjson")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"0 rows" in done.stderr
    done = batch("x", None, "/dev/null", "--in-format", "csv")
    zero = batch("x", "")
    assert done.stdout == zero.stdout == b""
    assert done.returncode == zero.returncode == 2
    assert b"is empty: there is no header" in done.stderr


def test_pc19_padded_header(batch: Batch) -> None:
    found = batch.table("x+y", "x, y \n1,2\n")
    assert found["value"] == ["3.0"]
    assert " y " in found


def test_pc20_gzip_members(batch: Batch) -> None:
    data = gzip.compress(b"x\n1\n") + gzip.compress(b"2\n3\n")
    assert batch.table("x^2", data, name="data.csv.gz")["value"] == ["1.0", "4.0", "9.0"]


def test_pc21_content_says_what_it_is(batch: Batch) -> None:
    assert batch.table("x^2", gzip.compress(b"x\n3\n"))["value"] == ["9.0"]
    assert batch.table("x^2", b"x\n3\n", name="data.csv.gz")["value"] == ["9.0"]
    assert b"9.0" in batch("x^2", None, "-", stdin=gzip.compress(b"x\n3\n")).stdout


def test_pc22_no_type_is_guessed(batch: Batch) -> None:
    assert batch.table("x", "x\n" + "1\n" * 2000 + "2.5\n")["value"][-1] == "2.5"


def test_pc23_leading_zeros(batch: Batch) -> None:
    assert batch.table("x*1", "x\n0000007\n0000008\n0000010\n")["value"] == ["7.0", "8.0", "10.0"]


def test_pc24_underscores(batch: Batch) -> None:
    assert "`100_1` is not a number" in batch.error("x", "x\n100_1\n")


def test_pc25_long_cells(batch: Batch) -> None:
    assert batch.table("x^2", "t,x\n" + "a" * 200_000 + ",2\n")["value"] == ["4.0"]


def test_pc26_two_objects_in_a_line(batch: Batch) -> None:
    text = batch.error("x", '{"x":1} {"x":2}\n{"x":3}\n', name="d.ndjson")
    assert "d.ndjson:1" in text
    assert "extra data" in text


def test_pc27_blank_lines_in_json(batch: Batch) -> None:
    done = batch("x", '{"x":1}\r\n\r\n  \n{"x":2}', name="d.ndjson")
    assert [json.loads(r)["value"] for r in done.stdout.splitlines()] == [1.0, 2.0]
    text = batch.error("x", '{"x":1}\r\n\r\n  \n{"x":"a"}', name="d.ndjson")
    assert "d.ndjson:4: data row 2, column `x`" in text


def test_pc28_types_in_json(batch: Batch) -> None:
    data = '{"x":"200.0"}\n{"x":true}\n{"x":[1]}\n{"x":7}\n'
    text = batch.error("x", data, name="d.ndjson")
    assert "d.ndjson:2: data row 2, column `x`: `true` is true or false" in text
    done = batch("x", data, "--on-error", "null", name="d.ndjson")
    assert [json.loads(r)["value"] for r in done.stdout.splitlines()] == [200.0, None, None, 7.0]


@pytest.mark.parametrize(
    "data",
    ['{"x":1,"x":2}\n{"y":0}\n', '{"x":1}\n{"y":0,"x":2,"x":3}\n{"y":1}\n', '{"x":1,"a":{"x":5}}\n{"x":3,"x":4}\n'],
)
def test_a_key_that_appears_twice_is_a_fault_in_ndjson(batch, data):
    """Also where another row lacks it, so that the file has no more keys than rows."""
    assert "`x` appears twice" in batch.error("x", data, name="d.ndjson")


def test_ndjson_keeps_objects_as_they_are_written(batch):
    data = '{"x": 1.50,"t":"a, \\"b\\" {c}"}\n  {"x":2e0 }  \n{"x":null, "n":{"x":7}}\n'
    assert batch("f = x^2", data, name="d.ndjson").stdout.decode() == (
        '{"x": 1.50,"t":"a, \\"b\\" {c}", "f": 2.25, "df_dx": 3.0}\n'
        '{"x":2e0, "f": 4.0, "df_dx": 4.0}\n'
        '{"x":null, "n":{"x":7}, "f": null, "df_dx": null}\n'
    )


def test_pc30_tsv_has_no_quotes(batch: Batch) -> None:
    done = batch("x", 'note\tx\n5"9 tall\t1\nsaid "hi" loudly\t2\n', name="d.tsv")
    assert done.stdout == b'note\tx\tvalue\tdvalue_dx\n5"9 tall\t1\t1.0\t1.0\nsaid "hi" loudly\t2\t2.0\t1.0\n'


def test_pc31_latin1(batch: Batch) -> None:
    data = b"note,x\ncaf\xe9,1\n"
    text = batch.error("x", data)
    assert "byte 0xe9 is not UTF-8" in text
    assert "data row 1" in text
    assert "--encoding" in text
    assert batch.table("x", data, "--encoding", "latin-1")["note"] == ["caf\u00e9"]


def test_pc32_null_in_parquet(batch: Batch) -> None:
    pl = pytest.importorskip("polars")
    pl.DataFrame({"x": [1, None, 3]}).write_parquet(batch.folder / "d.parquet")
    done = batch("x^2", None, "d.parquet", "-o", "o.parquet")
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(batch.folder / "o.parquet")
    assert found["value"].to_list() == [1.0, None, 9.0]
    assert found["x"].to_list() == [1, None, 3]
    assert found["x"].dtype == pl.Int64


def test_pc34_no_final_newline(batch: Batch) -> None:
    assert batch.table("x", "x\n1\n2")["value"] == ["1.0", "2.0"]


def test_pc35_padding(batch: Batch) -> None:
    assert batch.table("x", "x\n 1.5\n2 \n\t3\n")["value"] == ["1.5", "2.0", "3.0"]


def test_pd03_code_in_a_header_is_text(batch: Batch) -> None:
    found = batch.table("2*x", 'x,"__import__(""os"").getcwd()"\n1,y\n')
    assert found["value"] == ["2.0"]
    assert found['__import__("os").getcwd()'] == ["y"]


def test_pd07_huge_exponents(batch: Batch) -> None:
    assert batch.table("x", "x\n1e1000000000\n1e-1000000000\n")["value"] == ["inf", "0.0"]


def test_pd09_long_bad_cell(batch: Batch) -> None:
    text = batch.error("x", "x\n" + "0" * 200_000 + "a\n")
    assert "200001 characters" in text


def test_pd11_odd_output_names(batch: Batch) -> None:
    done = subprocess.run(
        [*GRADCLI, "batch", "-e", "x", "d.csv", "-o", "none/../../evil.csv"], cwd=batch.folder, capture_output=True
    )
    assert done.returncode == 2
    assert not (batch.folder.parent / "evil.csv").exists()


def test_pd12_formulas_are_text(batch: Batch) -> None:
    assert batch.table("x", "note,x\n=1+1,2\n@cmd,3\n-5,4\n")["note"] == ["=1+1", "@cmd", "-5"]


def test_pa26_look_alike_letters(batch: Batch) -> None:
    text = batch.error("2*\u00b5", "\u03bc\n1\n")
    assert "U+03BC" in text


def test_environment_is_utf8(batch: Batch) -> None:
    (batch.folder / "d.csv").write_text("\u03b1\n2\n", encoding="utf-8")
    done = subprocess.run(
        [*GRADCLI, "batch", "-e", "\u03b1^2", "d.csv"],
        cwd=batch.folder,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert "\u03b1" in done.stdout.decode()


@pytest.mark.parametrize("name", ["o.parquet", "o.csv"])
def test_pc29_killed_half_way(batch: Batch, name: str) -> None:
    """The input stays open, so the run is half way for sure; the next run removes what this one left."""
    command = [*GRADCLI, "batch", "-e", "x^2", "-", "-o", name]
    process = subprocess.Popen(command, cwd=batch.folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin
    process.stdin.write(b"x\n" + b"1\n" * 200_000)
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not (strays := list(batch.folder.glob(f".{name}.gradcli-*"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=20)
    assert strays
    assert not (batch.folder / name).exists()
    assert batch("x^2", "x\n1\n", "-o", name).returncode == 0
    assert sorted(p.name for p in batch.folder.iterdir()) == ["data.csv", name]


PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "gradcli", "batch", "-e", "x*y", "-"], stdout=subprocess.PIPE)
print(done.stdout.count(b"\\n"), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_pc33_memory_of_a_pipe(batch: Batch) -> None:
    """Five million rows take a minute; two show whether memory grows with the rows: 130 MB if they were all kept. Half
    a million fill what is on its way at once."""
    peaks = []
    block = b"".join(b"%d,%d.5\n" % (i, i) for i in range(10_000))
    for blocks in (50, 200):
        done = subprocess.run([sys.executable, "-c", PEAK], cwd=batch.folder, input=b"x,y\n" + block * blocks,
                              capture_output=True, check=True, timeout=100)  # fmt: skip
        lines, peak = map(int, done.stdout.split())
        assert lines == 10_000 * blocks + 1
        peaks.append(peak / 1024)
    assert peaks[1] < 300
    assert peaks[1] - peaks[0] < 90


def test_pc33_first_output_before_the_input_ends(batch: Batch) -> None:
    process = subprocess.Popen([*GRADCLI, "batch", "-e", "x*y", "-"], cwd=batch.folder, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"x,y\n1,2\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"x,y,value,dvalue_dx,dvalue_dy\n"
    assert process.stdout.readline() == b"1,2,2.0,2.0,1.0\n"
    process.communicate(timeout=20)


def test_quotes_do_not_depend_on_the_neighbours(batch: Batch) -> None:
    """A record is written again only when its own quotes are not as they should be."""
    rows = ['"needless",1', '5"9 tall,2', '"two\nlines",3', "plain,4"]
    data = "t,x\n" + "".join(r + "\n" for r in rows)
    done = batch("2*x", data)
    assert done.stdout.decode() == (
        't,x,value,dvalue_dx\n"needless",1,2.0,2.0\n"5""9 tall",2,4.0,2.0\n"two\nlines",3,6.0,2.0\nplain,4,8.0,2.0\n'
    )
    assert batch("2*x", data, "--chunk-rows", "1").stdout == done.stdout
    assert batch("2*x", "t,x\n" + rows[0] + "\n").stdout.endswith(b'"needless",1,2.0,2.0\n')


# ---- what others read ----------------------------------------------------------------------------------------------

ODD = 'id,x,note\n1,2,"a, ""b""\nc"\n2,-1,\n3,,=1+1\n'


def test_jq_reads_it(batch: Batch) -> None:
    if not shutil.which("jq"):
        pytest.skip("no jq")
    made = batch("o = log(x)", ODD, "--out-format", "ndjson").stdout
    done = subprocess.run(["jq", "-c", "[.id, .o, .do_dx, .note]"], input=made, capture_output=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r[:3] for r in rows] == [[1, 0.6931471805599453, 0.5], [2, None, None], [3, None, None]]
    assert rows[0][3] == 'a, "b"\nc'


def test_mlr_reads_it(batch: Batch) -> None:
    if not shutil.which("mlr"):
        pytest.skip("no mlr")
    made = batch("o = log(x)", ODD).stdout
    words = ["mlr", "--icsv", "--ojsonl", "put", "$twice = $o*2", "then", "cut", "-o", "-f", "note,twice"]
    done = subprocess.run(words, input=made, capture_output=True, check=True)
    first = json.loads(done.stdout.splitlines()[0])
    assert first["note"] == 'a, "b"\nc'
    assert first["twice"] == pytest.approx(2 * 0.6931471805599453, rel=1e-15)


@pytest.mark.parametrize("kind", ["csv", "tsv", "ndjson", "parquet"])
def test_duckdb_reads_it(batch: Batch, kind: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    data = ODD.replace('"a, ""b""\nc"', "plain") if kind == "tsv" else ODD
    done = batch("o = log(x)", data, "-o", f"o.{kind}")
    assert done.returncode == 0, done.stderr
    read = {"csv": "read_csv", "tsv": "read_csv", "ndjson": "read_json", "parquet": "read_parquet"}[kind]
    rows = duckdb.sql(f"SELECT id, o, do_dx, note FROM {read}('{batch.folder}/o.{kind}') ORDER BY id").fetchall()
    assert [int(r[0]) for r in rows] == [1, 2, 3]
    assert rows[0][1:3] == (0.6931471805599453, 0.5)
    assert rows[1][1] is None or rows[1][1] != rows[1][1]
    assert rows[2][1] is None
    assert rows[0][3] == ("plain" if kind == "tsv" else 'a, "b"\nc')


def test_verbose_names_the_engine(batch: Batch) -> None:
    done = batch("x", "x\n1\n", "-v", "-j", "1")
    assert "note: 1 worker, engine numpy: the same bits for any chunks, format and runner" in done.stderr.decode()
    assert b"engine" not in batch("x", "x\n1\n").stderr


def test_ndjson_values_that_pass_stay_json(batch: Batch) -> None:
    line = rb'{"x": 1, "o": {"a": 1.10, "b": [1, 2]}, "s": "12", "t": true, "h": "\ud800"}'
    done = batch("x", line.decode(), "--keep", "o,s,t,h", name="d.ndjson")
    head = rb'{"o": {"a": 1.10, "b": [1, 2]}, "s": "12", "t": true, "h": "\ud800", '
    assert done.stdout == head + b'"value": 1.0, "dvalue_dx": 1.0}\n'


@pytest.mark.parametrize("depth", [3, 900])
def test_deep_values_pass_as_they_are(batch: Batch, depth: int) -> None:
    lists, objects = "[" * depth + "1.50" + "]" * depth, '{"a": ' * depth + "{}" + "}" * depth
    data = f'{{"x": 1, "a": {lists}}}\n{{"x": 2, "a": {objects}}}\n'
    done = batch("x", data, "--keep", "a", "--wrt", "x", name="d.ndjson")
    assert [line.split(", \"value\"")[0] for line in done.stdout.decode().splitlines()] == [
        f'{{"a": {lists}', f'{{"a": {objects}'
    ]  # fmt: skip
    twice = f'{{"x": 1, "a": {"[" * depth}{{"b": 1, "b": 2}}{"]" * depth}}}\n'
    assert "`b` appears twice" in batch.error("x", twice, "--keep", "a", name="d.ndjson")


def test_half_a_surrogate_pair_is_no_cell(batch: Batch) -> None:
    text = batch.error("x", '{"x": 1, "s": "\\ud800"}\n', "--out-format", "csv", name="d.ndjson")
    assert "d.ndjson:1: data row 1: `s`: half of a surrogate pair is no text" in text


@pytest.mark.parametrize("flags", [(), ("--chunk-rows", "1"), ("-j", "1")])
def test_a_key_twice_matters_where_it_is_used(batch: Batch, flags: tuple[str, ...]) -> None:
    lines = '{"x": 1, "q": 0}\n{"x": 2, "q": 1, "q": 2}\n{"x": "3"}\n'
    assert batch("x", lines, *flags, name="d.ndjson").stdout.count(b"dvalue_dx") == 3
    assert "d.ndjson:2: data row 2: `q` appears twice" in batch.error(
        "x", lines, "--keep", "q", *flags, name="d.ndjson"
    )
    lines += '{"x": 4, "x": 5}\n'
    assert "d.ndjson:4: data row 4: `x` appears twice" in batch.error("x", lines, *flags, "-o", "o", name="d.ndjson")


def test_a_later_key_called_like_a_result(batch: Batch) -> None:
    text = batch.error("x", '{"x": 1}\n{"x": 2, "value": 3}\n', name="d.ndjson")
    assert "d.ndjson:2: a result is called `value`, as is a key of this object" in text
    assert batch("x", None, "d.ndjson", "--keep", "none").returncode == 0


@pytest.mark.parametrize("text", ['[{"x": 1}]', '[\n{"x": 1}\n]', '{\n"x": 1\n}'])
def test_json_that_is_not_ndjson(batch: Batch, text: str) -> None:
    assert "jq -c" in batch.error("x", text, name="d.ndjson")


def _parquet(batch: Batch, name: str, **columns: object) -> None:
    import polars as pl

    pl.DataFrame(columns).write_parquet(batch.folder / name)


def test_lists_and_objects_of_parquet_pass_as_json(batch: Batch) -> None:
    from datetime import timedelta
    from decimal import Decimal

    days, prices = [timedelta(1), None], [Decimal("1.10"), None]
    _parquet(batch, "d.parquet", x=[1, 2], l=[[1, 2], None], o=[{"a": "é"}, None], t=days, p=prices)
    done = batch("x", None, "d.parquet", "--out-format", "csv", "--keep", "l,o,t,p")
    assert done.stdout.decode() == 'l,o,t,p,value,dvalue_dx\n"[1,2]","{""a"":""é""}",P1D,1.10,1.0,1.0\n,,,,2.0,1.0\n'
    done = batch("x", None, "d.parquet", "--out-format", "ndjson", "--keep", "l,o,p")
    assert json.loads(done.stdout.splitlines()[0])["l"] == [1, 2]
    assert done.stdout.splitlines()[0].startswith('{"l": [1,2], "o": {"a":"é"}, "p": 1.10,'.encode())


@pytest.mark.parametrize("format", ["csv", "ndjson"])
def test_bytes_of_parquet_are_refused(batch: Batch, format: str) -> None:
    _parquet(batch, "d.parquet", x=[1], b=[[b"a"]])
    done = batch("x", None, "d.parquet", "--out-format", format)
    assert done.returncode == 2
    assert f"column `b` holds bytes, which {format.upper()} cannot hold" in done.stderr.decode()
    assert batch("x", None, "d.parquet", "--out-format", format, "--keep", "x").returncode == 0


def test_parquet_files_whose_types_differ(batch: Batch) -> None:
    _parquet(batch, "a.parquet", x=[1])
    _parquet(batch, "b.parquet", x=[1.5])
    done = batch("x", None, "a.parquet", "b.parquet", "-o", "o.parquet")
    assert (done.returncode, b"panicked" in done.stderr) == (2, False)
    assert "b.parquet: column `x` is Float64, in the first file it is Int64" in done.stderr.decode()
    assert batch("x", None, "a.parquet", "b.parquet").returncode == 0


def test_what_a_column_of_parquet_holds(batch: Batch) -> None:
    from datetime import datetime

    _parquet(batch, "d.parquet", x=[datetime(2020, 1, 1)])
    assert "d.parquet: column `x` holds dates and times, not numbers" in batch("x", None, "d.parquet").stderr.decode()


def test_closed_pipe_is_silent_for_parquet(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(200_000)))
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{sys.executable} -m gradcli batch -e x d.csv --out-format parquet | head -c 1; exit ${{PIPESTATUS[0]}}",
        ],
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet"])
def test_a_full_disk_says_so(batch: Batch, format: str) -> None:
    done = batch("x", "x\n1\n", "-o", "/dev/full", "--out-format", format)
    assert (done.returncode, done.stderr) == (2, b"gradcli: error: cannot write /dev/full: no space left on device\n")


@pytest.mark.parametrize(
    ("flags", "fact"),
    [
        (("-o", "o.csv", "--rejects", "./o.csv"), "`o.csv` and `./o.csv` are the same file"),
        (("-o", "o.csv", "--summary", "o.csv"), "`o.csv` is named twice"),
        (("--rejects", "-"), "standard output is named twice"),
        (("--summary", "/dev/stdout"), "standard output and `/dev/stdout` are the same file"),
        (("-o", ""), "the name of an output is empty"),
        (("/dev/stdin", "-"), "standard input can be read once"),
        (("",), "the name of a data file is empty"),
        (("--summary", "no/folder/s.json"), "cannot write no/folder/s.json: no such file or directory"),
    ],
)
def test_files_that_cannot_be_used_are_refused_first(batch: Batch, flags: tuple[str, ...], fact: str) -> None:
    done = batch("x", "x\n1\n", *flags, stdin=b"x\n1\n")
    assert (done.returncode, done.stdout) == (2, b"")
    assert fact in done.stderr.decode()
    assert [p.name for p in batch.folder.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("cell", "remedy"),
    [
        ("1,5", "`--decimal-comma` reads a comma as the decimal point"),
        ("1,5e3", "`--decimal-comma` reads a comma as the decimal point"),
        ("1.234,5", "`--decimal-comma` reads a comma as the decimal point"),
        ("1,234", "a thousands separator must be left out"),
        ("1,234,567", "without thousands separators"),
        ("1 234.5", "write the digits without separators"),
        ("\u20135", "write the minus as `-`"),
        ("5%", "write the number itself"),
        ("-", "`--na '-'` says that it means missing"),
        ("5\u00b2", "`--on-error null`"),
    ],
)
def test_a_cell_that_is_no_number_has_its_remedy(batch: Batch, cell: str, remedy: str) -> None:
    assert remedy in batch.error("x", f'x\n"{cell}"\n')


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        ("x,y\n1,2,\n", "leave the separator at its end out"),
        ('x,y\n1, "2,5"\n', "take the space before the quote away"),
        ('x,y\n1, "2"\n', "quotes count right behind the separator"),
        ('x, "y"\n1,2\n', 'column ` "y"` is near'),
        ('{"x": 1, "y": 2}\n', "`--in-format ndjson`"),
    ],
)
def test_a_row_that_does_not_fit_has_its_remedy(batch: Batch, data: str, remedy: str) -> None:
    assert remedy in batch.error("x*y", data)


def test_a_column_that_a_rename_takes(batch: Batch) -> None:
    text = batch.error("x*y", "x\n1\n", "--rename", "y=x")
    assert "`x` has no value: column `x` gives `y` its values" in text
    assert "`--rename x=x` gives them to both" in text
    assert batch.table("x*y", "x\n3\n", "--rename", "y=x", "--rename", "x=x")["value"] == ["9.0"]
    done = batch("x = 4\nx*y", "x\n3\n", "--rename", "y=x")
    assert "warning: `x` keeps the value of the model: column `x` gives `y` its values" in done.stderr.decode()
    assert "names two columns for `y`" in batch.error("x*y", "x,y\n3,4\n", "--rename", "y=x", "--rename", "y=y")


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        ("x,y\n1,\n", "data row 1, column `y`: the value is missing\nhelp: `--data-missing skip`"),
        ("x\ty\n1\t2\n", "`--in-format tsv` reads tabs"),
        ("x;y\n1;2\n", "`gradcli batch -o FILE.parquet` writes a table that --data reads"),
        ('x,y\n1,"2,5"\n', "`gradcli batch -o FILE.parquet` writes a table that --data reads"),
    ],
)
def test_grad_over_data_names_no_flag_that_it_lacks(batch: Batch, data: str, remedy: str) -> None:
    (batch.folder / "d.csv").write_text(data)
    words = ["grad", "-e", "sum(x*y)", "--data", "d.csv"]
    done = subprocess.run([*GRADCLI, *words], cwd=batch.folder, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert remedy in done.stderr.decode()


@pytest.mark.parametrize("name", ["o.json", "o.xlsx", "o.csv.bz2", "o.parquet.gz"])
def test_a_name_that_promises_another_format(batch: Batch, name: str) -> None:
    assert f"cannot write {name}: " in batch.error("x", "x\n1\n", "-o", name)
    assert batch("x", "x\n1\n", "-o", name, "--out-format", "csv").returncode == 0


def test_an_empty_file_among_others(batch: Batch) -> None:
    (batch.folder / "empty.csv").write_bytes(b"")
    for names in (("empty.csv", "data.csv"), ("data.csv", "empty.csv")):
        (batch.folder / "data.csv").write_text("x\n3\n")
        assert batch("x", None, *names).stdout == b"x,value,dvalue_dx\n3,3.0,1.0\n"


@pytest.mark.parametrize(
    ("data", "flags", "fact"),
    [
        ("x,n\n1,\u00e9\n".encode("utf-16-le"), (), "`--encoding utf-16-le` reads it"),
        ("x,n\n1,\u00e9\n".encode("utf-16-be"), (), "`--encoding utf-16-be` reads it"),
        (b"x\n1\n", ("--encoding", "hex"), "no encoding `hex`"),
        (b"1\n", ("--header", ""), "`--header` names no column"),
    ],
)
def test_what_the_bytes_are(batch: Batch, data: bytes, flags: tuple[str, ...], fact: str) -> None:
    assert fact in batch.error("x", data, *flags)


def test_a_mark_of_utf8_before_another_encoding(batch: Batch) -> None:
    done = batch("x", b"\xef\xbb\xbfx,n\n1,\xe9\n", "--encoding", "latin-1")
    assert done.stdout.decode() == "x,n,value,dvalue_dx\n1,\u00e9,1.0,1.0\n"


def test_the_fault_that_stops_is_listed(batch: Batch) -> None:
    batch.error("x", "x\n1\nb\n", "--rejects", "r.csv", "--on-error", "fail")
    assert (batch.folder / "r.csv").read_text().splitlines()[1] == "data.csv,2,3,x,b,`b` is not a number"


def test_the_model_comes_first(batch: Batch) -> None:
    (batch.folder / "m.expr").write_text("x^2")
    (batch.folder / "d.csv").write_text("x\n1\n")
    done = subprocess.run([*GRADCLI, "batch", "d.csv", "m.expr"], cwd=batch.folder, capture_output=True, timeout=60)
    assert (done.returncode, b"`d.csv` is no model\nhelp: the model comes first: `m.expr`" in done.stderr) == (2, True)


def _grad(batch: Batch, expression: str, data: str, name: str = "d.csv", *flags: str) -> tuple[int, str]:
    (batch.folder / name).write_text(data)
    words = [*GRADCLI, "grad", "-e", expression, "--data", name, *flags]
    done = subprocess.run(words, cwd=batch.folder, capture_output=True, timeout=60)
    return done.returncode, done.stderr.decode()


def test_grad_over_data_says_where_a_nan_came_from(batch: Batch) -> None:
    flags = ("--data-missing", "skip")
    status, text = _grad(batch, "sum(x*y)", "x,y\n1,1\n,2\nnan,3\n4,inf\n5,inf\n", "d.csv", *flags)
    assert status == 0
    assert "note: `value` is nan: column `x` is not finite in 1 row, first in data row 3 of d.csv" in text
    assert "note: `value` is nan: column `y` is not finite in 2 rows, first in data row 4 of d.csv" in text
    assert "note: `value` is -inf" in _grad(batch, "sum(log(x))", "x\n1\n0\n")[1]
    assert not _grad(batch, "sum(x)", "x,y\n1,nan\n")[1]


def test_grad_over_ndjson_refuses_a_key_that_comes_late(batch: Batch) -> None:
    status, text = _grad(batch, "w = 2\nsum(w*x)", '{"x": 1}\n{"x": 2, "w": 3}\n', "d.ndjson")
    assert (status, "d.ndjson:2: `w` is in a later row, but not in the first" in text) == (2, True)
