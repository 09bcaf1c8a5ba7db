"""A run for workers elsewhere: what they need as plain data, and what one of them does with a part.

A worker reads its part, computes, and gives the pieces that a local run would have, in order. With a folder it writes
them there, as a file that is whole or absent, and gives their counts only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from gradcli.batching.bind import bind
from gradcli.batching.plan import Asked, plan
from gradcli.batching.run import Outputs
from gradcli.batching.work import Piece, Shape, Work, pack
from gradcli.errors import GradcliError
from gradcli.formats.cells import Reading
from gradcli.formats.folder import part_name
from gradcli.formats.parquet import Sink
from gradcli.formats.parts import Outline, Part, PartReader
from gradcli.formats.stream import Progress
from gradcli.formats.target import Target
from gradcli.source import Source

PART, FILE = 8 << 20, 64 << 20  # bytes of a part whose results come back, and of one that becomes a file
Done = tuple[list[Piece], GradcliError | None]


@dataclass(frozen=True)
class Shipment:
    """All that a worker needs. `columns` are those of the data, `asked` names as the plan here has resolved them."""

    source: Source
    values: tuple[tuple[str, str], ...]
    renames: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    asked: Asked
    outline: Outline
    shape: Shape
    drop: bool
    reading: Reading
    folder: str | None = None

    @property
    def part_bytes(self) -> int:
        return FILE if self.folder else PART

    def build(self) -> Callable[[Part], Done]:
        """Called in a worker."""
        optional = self.outline.format == "ndjson"
        bound = bind(self.source, dict(self.values), self.columns, dict(self.renames), optional)
        work = Work(PartReader(self.outline), plan(bound, self.asked), self.shape, self.drop, self.reading)
        return _Worker(work, self.folder)


class _Worker:
    """Works on parts, one chunk after the other."""

    def __init__(self, work: Work, folder: str | None) -> None:
        self.work, self.folder = work, folder

    def __call__(self, part: Part) -> Done:
        """The pieces, and what ended them before the end of the part."""
        pieces: list[Piece] = []
        try:
            if self.folder is None:
                pieces.extend(map(_portable, self._pieces(part)))
            else:
                self._write(part, Path(self.folder, part_name(part.index, self.work.shape.format)), pieces)
        except GradcliError as fault:
            return pieces, fault
        return pieces, None

    def _pieces(self, part: Part) -> Iterator[Piece]:
        reader = self.work.reader
        assert isinstance(reader, PartReader)
        return map(self.work, reader.chunks_of(part))

    def _write(self, part: Part, path: Path, pieces: list[Piece]) -> None:
        shape = self.work.shape
        outputs = Outputs(Target(str(path)))
        try:
            outputs.open()
            if shape.format == "parquet":
                outputs.sink = Sink(outputs.target.place, self.work.empty_frame())
            outputs.write(pack(self.work.header(), shape.packing))
            for piece in self._pieces(part):
                if piece.rows:
                    outputs.write(piece.data)
                pieces.append(replace(piece, data=b""))
            outputs.commit()
        finally:
            outputs.discard()


def _portable(piece: Piece) -> Piece:
    """Views cannot be sent."""
    return replace(piece, data=bytes(piece.data)) if isinstance(piece.data, memoryview) else piece


def pieces(
    parts: Iterable[Part], run: Callable[[Iterable[Part]], Generator[Done]], progress: Progress
) -> Iterator[Piece]:
    """The pieces of all parts in order, and the fault that ends them where it arose."""
    sizes: list[int] = []

    def counted() -> Iterator[Part]:
        for part in parts:
            sizes.append(part.size)
            yield part

    progress.read = 0
    with closing(run(counted())) as results:
        for number, (found, fault) in enumerate(results):
            yield from found
            if fault is not None:
                raise fault
            progress.read += sizes[number]
