"""Parts of files, read apart, are the file: the same records with the same lines, wherever it is cut."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gradcli.errors import FileError
from gradcli.formats.cells import Reading
from gradcli.formats.folder import Folder, part_name
from gradcli.formats.parts import Outline, PartReader, cut
from gradcli.formats.reader import Options, open_data
from gradcli.formats.table import Wanted

CELLS = ('"a, ""b""\nc"', '5"9 tall', "plain", '"needless"', "", '""', 'x""y', '"\n\n"', "\u00e9\u20ac", '"\r\n"')


def records(path: Path, size: int) -> tuple[list[tuple[int, str, float]], list[str], int]:
    """Line, text and number of each record; faults; how many parts."""
    options = Options(chunk_bytes=max(size // 3, 16))
    outline = Outline.of(open_data([str(path)], options), [str(path)], options)
    rows, faults, parts = [], [], list(cut(outline, [str(path)], size))
    for part in parts:
        reader = PartReader(outline)
        for chunk in reader.chunks_of(part):
            table = reader.parse(chunk, Wanted((1,), (0,), False, True, Reading()))
            texts = table.frame.to_series(0).to_list() if table.rows else []
            for row, text in enumerate(texts):
                rows.append((chunk.line + table.line_of(table.record(row)), text, float(table.values[1][row])))
            faults += [f"{chunk.line + f.line}: {f.reason}" for f in table.faults]
    assert [p.index for p in parts] == list(range(len(parts)))
    assert sum(p.size for p in parts) == path.stat().st_size
    return rows, faults, len(parts)


@pytest.mark.parametrize("seed", range(8))
def test_any_cut_gives_the_same_records(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cells = CELLS if seed % 2 else [c for c in CELLS if '"' not in c or c.startswith('"')]
    lines = [f"{rng.choice(cells)},{i}{rng.choice(('', '', '.5'))}" for i in range(300)]
    if seed > 3:
        lines[150] = "oops,oops"
        lines[222] = "one"
    end = rng.choice(("\n", "\r\n"))
    path = tmp_path / "d.csv"
    path.write_bytes(("\ufeff" * (seed % 3 == 0) + end.join(['"text",x', *lines]) + end * (seed % 2)).encode())
    want, faults, parts = records(path, 1 << 20)
    assert (parts, len(want)) == (1, 300 - len(faults))
    for size in (16, 50, 333, 1000):
        found = records(path, size)
        assert found[:2] == (want, faults)
        assert found[2] > 2


def test_ndjson_and_compressed(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "d.ndjson"
    path.write_text("".join(f'{{"t": "{i}", "x": {i}}}\n\n' for i in range(100)))
    want = records(path, 1 << 20)
    assert records(path, 40)[:2] == want[:2]
    packed = tmp_path / "d.csv.gz"
    packed.write_bytes(gzip.compress(b"t,x\n" + b"a,1\n" * 100))
    rows, _, parts = records(packed, 16)
    assert (len(rows), parts) == (100, 1)


def test_what_cannot_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("t,x\n" + "a,1\n" * 100)
    options = Options()
    outline = Outline.of(open_data([str(path)], options), [str(path)], options)
    with pytest.raises(FileError, match="standard input is read once"):
        list(cut(outline, ["-"], 100))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is read once"):
        list(cut(outline, [str(tmp_path / "pipe")], 100))
    parts = list(cut(outline, [str(path)], 100))
    path.write_text("t,x\na,1\n")
    with pytest.raises(FileError, match="became shorter"):
        list(PartReader(outline).chunks_of(parts[-1]))
    path.unlink()
    with pytest.raises(FileError, match=r"cannot read .*no such file"):
        list(PartReader(outline).chunks_of(parts[-1]))


def test_a_folder_is_whole_or_absent(tmp_path: Path) -> None:
    name = str(tmp_path / "out") + "/"
    first, second = Folder(name).open(), Folder(name).open()
    assert len(list(tmp_path.iterdir())) == 2
    second.discard()
    Path(first.place, part_name(0, "csv")).write_text("x\n")
    Path(first.place, ".part-000001.csv.gradcli-1-dead").write_text("stray")
    (tmp_path / ".out.gradcli-1-dead").mkdir()
    first.commit()
    first.discard()
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["part-000000.csv"]
    with pytest.raises(FileError, match="the folder is not empty"):
        Folder(name).open()
    with pytest.raises(FileError, match="make the folder above it first"):
        Folder(f"{tmp_path}/no/such/").open()
    Folder(f"{tmp_path}/out2/").open().discard()
    (tmp_path / "out" / "part-000000.csv").unlink()
    Folder(name).open().discard()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
