"""Cutting a stream: whole records, whatever the sizes of blocks and chunks."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator

import pytest

from gradcli.formats import records
from gradcli.formats.records import Cutter


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def pieces(
    data: bytes, block: int, chunk: int, separator: int | None = ord(","), rows: int | None = None
) -> list[bytes]:
    return [c.data for c in Cutter("f", separator, chunk, rows).cut(blocks(data, block))]


def random_table(seed: int) -> list[list[str]]:
    rng = random.Random(seed)
    cells = ["1", "", "a,b", "line\nbreak", 'say "hi"', '"', "\n", "x" * 50, "\r\n", ","]
    return [[rng.choice(cells) for _ in range(3)] for _ in range(40)]


def written(rows: list[list[str]], end: str = "\n") -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator=end).writerows(rows)
    return out.getvalue().encode()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_chunks_are_whole_records(seed: int, end: str) -> None:
    rows = random_table(seed)
    data = written(rows, end)
    for block, chunk in ((1, 1), (3, 10), (17, 64), (64, 17), (10_000, 100), (10_000, 10_000)):
        found = pieces(data, block, chunk)
        assert b"".join(found) == data
        read = [list(csv.reader(io.StringIO(p.decode(), newline=""))) for p in found]
        assert [r for part in read for r in part] == rows


def test_rows_in_a_chunk() -> None:
    data = written(random_table(1))
    for rows in (1, 2, 7):
        found = pieces(data, 1000, 10_000, rows=rows)
        assert b"".join(found) == data
        assert all(len(list(csv.reader(io.StringIO(p.decode(), newline="")))) <= rows for p in found)


def test_a_quote_within_a_cell_is_text() -> None:
    found = pieces(b'h,n\n5"9 tall,1\n"a,b",2\n', 1000, 1000)
    assert b"".join(found) == b'h,n\n"5""9 tall",1\n"a,b",2\n'


def test_text_behind_a_closing_quote_is_a_fault() -> None:
    (chunk,) = Cutter("f", ord(",")).cut(iter([b'a,b\n"x"y,1\n2,3\n']))
    assert [(f.record, f.line, f.reason) for f in chunk.faults] == [(1, 2, "text follows a closing quote")]


def test_an_unclosed_quote_is_a_fault() -> None:
    first, last = Cutter("f", ord(",")).cut(iter([b'a,b\n1,2\n"3,4\n5,6\n']))
    assert first.data == b"a,b\n1,2\n"
    assert (last.line, last.faults[0].reason) == (2, "a quote is opened and never closed")


def test_an_endless_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LONGEST", 1000)
    with pytest.raises(records.FileError, match="a quote is opened there and not closed"):
        list(Cutter("f", ord(","), 100).cut(blocks(b'a\n"' + b"x\n" * 5000, 100)))


def test_lines_are_counted() -> None:
    data = written(random_table(2))
    line = 0
    for chunk in Cutter("f", ord(","), 50).cut(blocks(data, 40)):
        assert chunk.line == line
        line += chunk.data.count(b"\n")


def test_a_pause_lets_whole_records_go_on() -> None:
    found = [c.data for c in Cutter("f", ord(",")).cut(iter([b"a\n1\n2", b"", b"3\n", b"", b"4"]))]
    assert found == [b"a\n1\n", b"23\n", b"4\n"]
