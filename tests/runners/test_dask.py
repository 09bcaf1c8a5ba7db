"""Dask: the bytes of a local run, whatever happens to workers."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed")
pl = pytest.importorskip("polars")

MODEL = "a = 2; n = a*x; o = where(x > 0, log(x), y) + n*y"
SMALL = "from gradcli.batching import ship; ship.PART = ship.FILE = {size}; from gradcli.cli import main; main()"
# Loaded by each worker; the first to come dies in the middle of its work.
KILLER = """
import os, signal, threading, time

def dask_setup(worker):
    try:
        os.open({mark!r}, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    def die():
        while worker.state.executed_count < 3:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=die, daemon=True).start()
"""
CLUSTER = """
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def local(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "gradcli", "batch", *words], cwd=folder, capture_output=True,
                          timeout=100)  # fmt: skip


def dask(folder: Path, *words: str, size: int = 1 << 16, **more: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", SMALL.format(size=size), "batch", *words]
    if "--scheduler" not in words:
        command += ["--engine", "dask", "-j", "2"]
    return subprocess.run(command, cwd=folder, capture_output=True, env={**os.environ, **more}, timeout=100)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Quotes, line breaks in cells, quotes that are not as they should be, blanks, texts; several files."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(1)
    texts = ('"a, ""b""\nc"', '5"9 tall', "plain", '"needless"', "")
    lines = [f"{i},{'' if i % 17 == 0 else repr(float(v))},{texts[i % 5]},{float(v) / 3!r}\n"
             for i, v in enumerate(rng.normal(0, 1, 20_000))]  # fmt: skip
    (folder / "d.csv").write_text("id,x,text,y\n" + "".join(lines))
    (folder / "d0.csv").write_text("id,x,text,y\n" + "".join(lines[:7000]))
    (folder / "d1.csv.gz").write_bytes(gzip.compress(b"id,x,text,y\n" + "".join(lines[7000:9000]).encode()))
    (folder / "d2.csv").write_text("id,x,text,y\r\n" + "".join(lines[9000:]))
    frame = pl.DataFrame({"id": range(200_000), "x": rng.normal(0, 1, 200_000), "y": rng.normal(0, 1, 200_000)})
    frame.write_parquet(folder / "d.parquet", row_group_size=10_000)
    frame[:20_000].write_ndjson(folder / "d.ndjson")
    return folder


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster that lives on its own; most tests share it, since a start takes seconds."""
    script = tmp_path_factory.mktemp("cluster") / "cluster.py"
    script.write_text(CLUSTER)
    process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    yield process.stdout.readline().strip()
    process.communicate("\n", timeout=60)


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        ("d.csv", ()),
        ("d.csv", ("--keep", "id,text", "--chunk-rows", "100")),
        ("d[012].csv*", ("--out-format", "ndjson")),
        ("d.ndjson", ()),
        ("d.parquet", ()),
    ],
)
def test_bytes_are_those_of_local(
    rows: Path, scheduler: str, tmp_path: Path, data: str, flags: tuple[str, ...]
) -> None:
    want = local(rows, "-e", MODEL, data, *flags)
    assert want.returncode == 0, want.stderr
    done = dask(rows, "-e", MODEL, data, "-o", str(tmp_path / "o"), "--scheduler", scheduler, *flags,
                *(("--out-format", "csv") if data == "d.parquet" else ()))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o").read_bytes() == want.stdout
    assert done.stderr.split(b", ")[:-1] == want.stderr.split(b", ")[:-1]  # all but the seconds
    assert [p.name for p in tmp_path.iterdir()] == ["o"]


def test_parquet_in_and_out(rows: Path, scheduler: str, tmp_path: Path) -> None:
    for name, run in (("l", local), ("d", dask)):
        words = ("--scheduler", scheduler) if run is dask else ()
        done = run(rows, "-e", MODEL, "d.parquet", "-o", str(tmp_path / f"{name}.parquet"), *words)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "l.parquet").read_bytes() == (tmp_path / "d.parquet").read_bytes()


@pytest.mark.parametrize(("data", "suffix"), [("d.csv", "csv"), ("d.parquet", "parquet"), ("d.ndjson", "ndjson")])
def test_a_folder_of_parts(rows: Path, scheduler: str, tmp_path: Path, data: str, suffix: str) -> None:
    done = dask(rows, "-e", MODEL, data, "-o", f"{tmp_path}/out/", "--scheduler", scheduler)
    assert done.returncode == 0, done.stderr
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == [f"part-{i:06d}.{suffix}" for i in range(len(names))]
    assert len(names) > 2
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    parts = [(tmp_path / "out" / n) for n in names]
    want = local(rows, "-e", MODEL, data, "-o", str(tmp_path / f"l.{suffix}"))
    assert want.returncode == 0
    if suffix == "parquet":
        assert pl.read_parquet(parts).equals(pl.read_parquet(tmp_path / "l.parquet"))
    else:
        heads = 1 if suffix == "csv" else 0
        bodies = [b"".join(p.read_bytes().splitlines(keepends=True)[heads:]) for p in parts]
        whole = (tmp_path / f"l.{suffix}").read_bytes().splitlines(keepends=True)
        assert b"".join(bodies) == b"".join(whole[heads:])
    again = dask(rows, "-e", MODEL, data, "-o", f"{tmp_path}/out/", "--scheduler", scheduler)
    assert again.returncode == 2
    assert b"the folder is not empty" in again.stderr


def test_a_killed_worker_changes_nothing(rows: Path, tmp_path: Path) -> None:
    mark, script = tmp_path / "mark", tmp_path / "killer.py"
    script.write_text(KILLER.format(mark=str(mark)))
    want = local(rows, "-e", MODEL, "d.csv").stdout
    done = dask(rows, "-e", MODEL, "d.csv", size=30_000, DASK_DISTRIBUTED__WORKER__PRELOAD=f'["{script}"]')
    assert done.returncode == 0, done.stderr
    assert mark.exists()
    assert done.stdout == want
    assert done.stderr.count(b"\n") == 1  # the last line, no word about the worker
    mark.unlink()
    done = dask(rows, "-e", MODEL, "d.csv", "-o", f"{tmp_path}/out/", size=30_000,
                DASK_DISTRIBUTED__WORKER__PRELOAD=f'["{script}"]')  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert mark.exists()
    parts = sorted((tmp_path / "out").iterdir())
    assert all(p.name.startswith("part-") for p in parts)
    head = want.split(b"\n")[0] + b"\n"
    assert head + b"".join(p.read_bytes().removeprefix(head) for p in parts) == want


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(rows: Path, tmp_path: Path, number: int) -> None:
    """Also where a terminal sends it to all processes."""
    command = [sys.executable, "-c", SMALL.format(size=10_000), "batch", "-e", MODEL, "-o", f"{tmp_path}/out/",
               "--chunk-rows", "1", "--engine", "dask", "-j", "2", "d.csv"]  # fmt: skip
    process = subprocess.Popen(command, cwd=rows, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".out.*/part-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 143), said
    assert b"Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_faults_have_their_places(rows: Path, scheduler: str, tmp_path: Path) -> None:
    text = (rows / "d.csv").read_text()
    at = text.index("\n15001,") + len("\n15001,")
    (tmp_path / "bad.csv").write_text(text[:at] + "oops" + text[text.index(",", at) :])
    (tmp_path / "o").write_text("old")
    words = ("-e", MODEL, "bad.csv", "-o", "o")
    want, done = local(tmp_path, *words), dask(tmp_path, *words, "--scheduler", scheduler)
    assert (want.returncode, done.returncode) == (2, 2)
    assert b"data row 15002, column `x`: `oops` is not a number" in done.stderr
    assert done.stderr == want.stderr
    assert (tmp_path / "o").read_text() == "old"
    done = dask(tmp_path, *words[:3], "-o", "out/", "--scheduler", scheduler)
    assert (done.returncode, done.stderr) == (2, want.stderr)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv", "o"]
    for name, run in (("l", local), ("d", dask)):
        more = ("--scheduler", scheduler) if run is dask else ()
        assert run(tmp_path, *words, "--rejects", f"r{name}.csv", *more).returncode == 0
    assert (tmp_path / "rl.csv").read_bytes() == (tmp_path / "rd.csv").read_bytes()


def test_other_files_and_headers(scheduler: str, tmp_path: Path) -> None:
    (tmp_path / "p0.csv").write_text("x\n1\n")
    (tmp_path / "p1.csv").write_text("z\n1\n")
    words = ("-e", "2*x", "p*.csv")
    done = dask(tmp_path, *words, "--scheduler", scheduler)
    assert (done.returncode, done.stderr) == (2, local(tmp_path, *words).stderr)
    (tmp_path / "p1.csv").write_text("x\n")
    assert dask(tmp_path, *words, "--scheduler", scheduler).stdout == b"x,value,dvalue_dx\n1,2.0,2.0\n"
    (tmp_path / "e.ndjson").write_text("")
    done = dask(tmp_path, "-e", "2*x", "e.ndjson", "-o", "out/", "--scheduler", scheduler)
    assert (done.returncode, [p.name for p in (tmp_path / "out").iterdir()]) == (0, ["part-000000.ndjson"])


def test_what_cannot_be(tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / "folder").mkdir()
    for words, said in (
        (("-", "--scheduler", scheduler), b"standard input is read once"),
        (("d.csv", "--scheduler", "nonsense://x"), b"cannot reach the Dask scheduler"),
        (("d.csv", "--scheduler", "tcp://x", "--engine", "local"), b"leave one of them out"),
    ):
        done = subprocess.run([sys.executable, "-m", "gradcli", "batch", "-e", "x", *words], cwd=tmp_path,
                              input=b"x\n1\n", capture_output=True, timeout=60)  # fmt: skip
        assert done.returncode == 2
        assert said in done.stderr
    for target in ("folder", "new/"):
        done = local(tmp_path, "-e", "x", "d.csv", "-o", target)
        assert done.returncode == 2
        assert b"`--engine dask` writes a folder of parts" in done.stderr


def test_without_dask(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n1\n")
    script = ("import sys; sys.modules['dask'] = None; from gradcli.cli import main; "
              "sys.argv[1:] = ['batch', '-e', 'x', 'd.csv', '--engine', 'dask']; main()")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        "gradcli: error: `--engine dask` needs Dask\nhelp: install it: `pip install 'gradcli[dask]'`\n"
    )
