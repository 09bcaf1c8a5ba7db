"""Outputs are whole or absent."""

from __future__ import annotations

import itertools
import linecache
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradcli.cli.group import run
from gradcli.errors import FileError
from gradcli.formats.target import Target, check_distinct

GRADCLI = [sys.executable, "-m", "gradcli"]


def test_the_old_file_stays_until_commit(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("old")
    path.chmod(0o640)
    target = Target(str(path)).open()
    target.write(b"new")
    assert path.read_text() == "old"
    target.commit()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["o.csv"]


def test_nothing_is_lost_when_the_disk_begins_early(tmp_path: Path) -> None:
    target, block = Target(str(tmp_path / "o.bin")).open(), os.urandom(3 << 20)
    for _ in range(24):
        target.write(block)
    assert 0 < target.sent <= target.written == 24 * len(block)
    target.commit()
    assert (tmp_path / "o.bin").read_bytes() == 24 * block


def test_discard_leaves_no_trace(tmp_path: Path) -> None:
    target = Target(str(tmp_path / "o.csv")).open()
    target.write(b"new")
    target.discard()
    assert not list(tmp_path.iterdir())


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    target = Target(str(tmp_path / "link")).open()
    target.write(b"new")
    target.commit()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_pipes_behind_links_are_written_as_they_are(tmp_path: Path) -> None:
    """`/dev/stderr` and `>(...)` are links to pipes."""
    (tmp_path / "d.csv").write_text("x\n1\noops\n")
    words = ["batch", "-q", "-e", "x", "d.csv", "--rejects", "/dev/stderr", "-o", "/dev/stdout"]
    done = subprocess.run([*GRADCLI, *words],
                          cwd=tmp_path, capture_output=True)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"x,value,dvalue_dx\n1,1.0,1.0\n")
    assert done.stderr.splitlines()[1] == b"d.csv,2,3,x,oops,`oops` is not a number"


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "/dev/stdout"),
        ("-o", "/dev/fd/1"),
        ("-o", "/proc/self/fd/1"),
        ("-o", "folder/link"),
        ("-o", "o.csv", "--rejects", "/dev/stdout"),
        ("-o", "o.csv", "--summary", "/dev/stdout"),
        ("--out-format", "parquet"),
        ("--out-format", "parquet", "-o", "/dev/stdout"),
        ("check", "-q", "-e", "x = 1; x^2", "--report", "junit:/dev/stdout"),
    ],
)
def test_a_descriptor_stays_where_it_is(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What stands in the file before and what is written after stays."""
    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to("../again")
    (tmp_path / "again").symlink_to("/dev/stdout")
    with (tmp_path / "log").open("wb") as log:
        log.write(b"before\n")
        log.flush()
        words = words if words[0] == "check" else ("batch", "-q", "-e", "x", "d.csv", *words)
        subprocess.run([*GRADCLI, *words], cwd=tmp_path, stdout=log, check=True)
        log.seek(0, os.SEEK_CUR)
        os.write(log.fileno(), b"after\n")
    found = (tmp_path / "log").read_bytes()
    assert found.startswith(b"before\n")
    assert found.endswith(b"after\n")
    assert len(found) > 40
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_descriptors_may_share_a_file(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n1\noops\n")
    with (tmp_path / "log").open("wb") as log:
        words = ["batch", "-q", "-e", "x", "d.csv", "--rejects", "/dev/stderr"]
        subprocess.run([*GRADCLI, *words], cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT, check=True)
    assert sorted((tmp_path / "log").read_bytes().splitlines()) == [
        b"1,1.0,1.0", b"d.csv,2,3,x,oops,`oops` is not a number", b"file,row,line,column,text,reason",
        b"x,value,dvalue_dx"]  # fmt: skip


def test_a_descriptor_and_a_file_of_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "o"
    with path.open("wb") as opened:
        name = f"/dev/fd/{opened.fileno()}"
        for names in ((name, str(path)), (str(path), name), (name, name)):
            with pytest.raises(FileError, match=r"same file|twice"):
                check_distinct([], names)
        with pytest.raises(FileError, match="same file"):
            check_distinct([str(path)], [name])
    with pytest.raises(FileError, match="bad file descriptor"):
        Target(name).open()
    with path.open("rb") as opened, pytest.raises(FileError, match="open for reading only"):
        Target(f"/dev/fd/{opened.fileno()}").open()


def test_strays_go_living_ones_stay(tmp_path: Path) -> None:
    living = Target(str(tmp_path / "o.csv")).open()
    (tmp_path / ".o.csv.gradcli-1-dead").write_text("stray")
    other = Target(str(tmp_path / "o.csv")).open()
    assert len(list(tmp_path.iterdir())) == 2
    living.discard()
    other.discard()


@pytest.mark.parametrize("name", ["no/such/folder/o.csv", "a\0b", "."])
def test_what_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="cannot write"):
        Target(name).open()


def test_same_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    (tmp_path / "soft").symlink_to("a")
    for other in ("a", "hard", "soft"):
        with pytest.raises(FileError):
            check_distinct([str(tmp_path / "a")], [str(tmp_path / other)])
    check_distinct([str(tmp_path / "a")], [str(tmp_path / "b"), None, "/dev/null", "/dev/null"])


@pytest.mark.parametrize(
    "words",
    [
        ("batch", "m.expr", "d.csv", "-o", "m.expr"),
        ("batch", "m.expr", "d.csv", "-o", "link"),
        ("batch", "-", "d.csv", "-o", "m.expr"),
        ("batch", "m.expr", "-e", "z*2", "d.csv", "--rejects", "./m.expr"),
        ("batch", "m.expr", "d.csv", "-o", "o.csv", "--summary", "link"),
        ("check", "m.expr", "x=1", "--report", "junit:m.expr"),
        ("check", "-", "x=1", "--report", "junit:m.expr"),
        ("check", ".", "x=1", "--report", "sarif:link"),
        ("check", "m.expr", "x=1", "--report", "junit:link", "--against", "d.csv"),
        ("check", "-e", "x", "x=1", "--report", "junit:d.csv", "--against", "d.csv"),
        ("check", "m.expr", "x=1", "--report", "junit:o", "--report", "json:./o"),
        ("check", "m.expr", "x=1", "--report", "junit:-", "--report", "json:-"),
    ],
)
def test_no_output_takes_the_place_of_a_model(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "m.expr").write_text("z = x^2")
    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / "link").symlink_to("m.expr")
    with (tmp_path / "m.expr").open("rb") as model:
        done = subprocess.run([*GRADCLI, *words], cwd=tmp_path, stdin=model, capture_output=True)
    assert done.returncode == 2
    assert b"one run cannot read and write it" in done.stderr
    assert (tmp_path / "m.expr").read_text() == "z = x^2"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv", "link", "m.expr"]


@pytest.mark.parametrize(
    ("closed", "words", "status", "said"),
    [
        ("<&-", ("-",), 2, "standard input is closed"),
        ("<&-", ("-", "--in-format", "parquet"), 2, "standard input is closed"),
        (">&-", ("d.csv",), 2, "cannot write standard output: it is closed"),
        (">&-", ("d.csv", "-o", "o.csv"), 0, ""),
        ("<&- >&-", ("d.csv", "-o", "o.csv"), 0, ""),
        ("<&- >&- 2>&-", ("d.csv", "-o", "o.csv"), 0, ""),
        ("2>&-", ("d.csv", "-v", "--progress"), 0, ""),
        ("2>&-", ("bad.csv",), 2, ""),
        ("2>&-", ("bad.csv", "--on-error", "null"), 0, ""),
        ("2>/dev/full", ("bad.csv", "--on-error", "null", "--progress"), 0, ""),
    ],
)
def test_streams_that_are_closed(tmp_path: Path, closed: str, words: tuple[str, ...], status: int, said: str) -> None:
    """The number of a closed stream may become that of a file that is opened next."""
    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / "bad.csv").write_text("x\noops\n")
    shell = f"exec {sys.executable} -m gradcli batch -e x {' '.join(words)} {closed}"
    done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, said in done.stderr) == (status, True)
    assert "internal" not in done.stderr
    if "o.csv" in words:
        assert (tmp_path / "o.csv").read_text() == "x,value,dvalue_dx\n1,1.0,1.0\n"
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.fixture
def long_run(tmp_path: Path) -> list[str]:
    (tmp_path / "d.csv").write_text("x\n" + "".join(f"{i}\n" for i in range(300_000)))
    return [*GRADCLI, "batch", "-e", "x^2", str(tmp_path / "d.csv"), "-o", str(tmp_path / "o.csv")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_old_file(tmp_path: Path, number: int) -> None:
    (tmp_path / "o.csv").write_text("old")
    process = subprocess.Popen([*GRADCLI, "batch", "-e", "x^2", "-", "-o", str(tmp_path / "o.csv")],
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdin
    process.stdin.write(b"x\n1\n")
    process.stdin.flush()
    while not any(".gradcli-" in p.name for p in tmp_path.iterdir()):
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    assert [p.name for p in tmp_path.iterdir()] == ["o.csv"]
    assert (tmp_path / "o.csv").read_text() == "old"


@pytest.mark.parametrize("name", ["o.csv", "o.parquet"])
def test_a_signal_at_any_line_leaves_the_old_files(tmp_path: Path, name: str) -> None:
    """Python runs the handler of a signal between two calls: here it raises before each line in turn.

    A line that says `try:` alone calls nothing.
    """
    from gradcli.batching import run as running
    from gradcli.cli import rows
    from gradcli.formats import target

    (tmp_path / "d.csv").write_text("x\n1\n2\n")
    outputs = [str(tmp_path / n) for n in (name, "bad.csv", "s.json")]
    words = ["batch", "-q", "-e", "x^2", str(tmp_path / "d.csv"), "-o", outputs[0]]
    words += ["--rejects", outputs[1], "--summary", outputs[2]]
    files = {module.__file__ for module in (running, rows, target)}
    state = {"left": 0, "raised": False}

    def at(frame: Any, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if event == "line" and line != "try:" and any(".gradcli-" in p.name for p in tmp_path.iterdir()):
            state["left"] -= 1
            if state["left"] == 0:
                state["raised"] = True
                raise KeyboardInterrupt
        return at

    for count in itertools.count(1):
        for output in outputs:
            Path(output).write_text("old")
        state.update(left=count, raised=False)
        sys.settrace(at)
        try:
            status = run(words)
        finally:
            sys.settrace(None)
        assert status == (130 if state["raised"] else 0), count
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*(Path(o).name for o in outputs), "d.csv"]), count
        if not state["raised"]:
            break
    assert count > 50


def test_a_signal_is_no_fault_that_a_library_handles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's threads, for one, clean up behind any `Exception` that comes while one starts."""
    from gradcli.runners import local

    def careful(*_: object) -> Iterator[object]:
        try:
            signal.raise_signal(signal.SIGTERM)
        except Exception:  # noqa: BLE001  what it is to get past
            yield from ()

    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / "o.csv").write_text("old")
    monkeypatch.setattr(local, "run", careful)
    before = signal.getsignal(signal.SIGTERM)
    assert run(["batch", "-e", "x^2", str(tmp_path / "d.csv"), "-o", str(tmp_path / "o.csv")]) == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    assert (tmp_path / "o.csv").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_hangup_that_nohup_ignores_ends_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(["nohup", *GRADCLI, "batch", "-e", "x^2", "-", "-o", str(tmp_path / "o.csv")],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdin
    process.stdin.write(b"x\n1\n")
    process.stdin.flush()
    while not any(".gradcli-" in p.name for p in tmp_path.iterdir()):
        time.sleep(0.02)
    process.send_signal(signal.SIGHUP)
    process.communicate(b"2\n", timeout=20)
    assert process.returncode == 0
    assert (tmp_path / "o.csv").read_text() == "x,value,dvalue_dx\n1,1.0,2.0\n2,4.0,4.0\n"


@pytest.mark.parametrize("way", ["head", "kill", "damaged"])
def test_parquet_on_standard_input_leaves_nothing_behind(tmp_path: Path, way: str) -> None:
    pl = pytest.importorskip("polars")
    (tmp_path / "tmp").mkdir()
    pl.DataFrame({"x": range(300_000)}).write_parquet(tmp_path / "d.parquet")
    data = (tmp_path / "d.parquet").read_bytes()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen([*GRADCLI, "batch", "-q", "-e", "x^2", "-"], env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdin
    assert process.stdout
    process.stdin.write(data[:1000] if way == "damaged" else data)
    process.stdin.close()
    process.stdout.readline()
    if way == "kill":
        process.kill()
    process.stdout.close()
    assert process.stderr
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=20) == {"head": 141, "kill": -9, "damaged": 2}[way]
    assert not list((tmp_path / "tmp").iterdir())
    assert said.startswith(b"gradcli: error: cannot read - as Parquet" if way == "damaged" else b"")
    assert b"/dev/fd" not in said


def test_a_kill_leaves_the_old_or_the_new_file(tmp_path: Path, long_run: list[str]) -> None:
    started = time.monotonic()
    subprocess.run(long_run, check=True)
    whole, new = time.monotonic() - started, (tmp_path / "o.csv").read_text()
    rng = random.Random(1)
    for _ in range(int(os.environ.get("GRADCLI_KILLS", "5"))):
        (tmp_path / "o.csv").write_text("old")
        process = subprocess.Popen(long_run)
        time.sleep(rng.uniform(0.3, 1.1) * whole)
        process.kill()
        process.wait()
        assert (tmp_path / "o.csv").read_text() in ("old", new)
    subprocess.run(long_run, check=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv", "o.csv"]
