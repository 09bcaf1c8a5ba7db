"""Formats of rows: one row a format, loaded when it is used.

Readers give `Chunk`s of whole records (`records`) and make a `Table` of each (`delimited`, `ndjson`, `parquet`);
encoders turn what passes through and the results back into bytes, Parquet into frames.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradcli.errors import FileError


@dataclass(frozen=True)
class Format:
    """A format by name, and the suffixes that stand for it."""

    name: str
    suffixes: tuple[str, ...]
    doc: str


FORMATS = {
    f.name: f
    for f in (
        Format("csv", (".csv",), "comma-separated, quoted as in RFC 4180"),
        Format("tsv", (".tsv", ".tab"), "tab-separated, nothing is quoted"),
        Format("ndjson", (".ndjson", ".jsonl"), "one JSON object a line"),
        Format("parquet", (".parquet", ".pq"), "columns with types"),
    )
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
# Names that promise something else than what is written.
_OTHERS = (
    *(".json", ".xlsx", ".xls", ".ods", ".xml", ".html", ".feather", ".arrow", ".ipc", ".orc", ".avro", ".npy", ".npz"),
    *(".h5", ".hdf5", ".db", ".sqlite", ".bz2", ".xz", ".zip", ".7z"),
)


def by_suffix(name: str) -> tuple[str | None, str]:
    """Format and compression that a file name stands for: `a.csv.gz` is csv and gzip."""
    lowered = name.lower()
    packed = next((c for suffix, c in COMPRESSIONS.items() if lowered.endswith(suffix)), "")
    if packed:
        lowered = lowered.rsplit(".", 1)[0]
    return next((f.name for f in FORMATS.values() if lowered.endswith(f.suffixes)), None), packed


def output_format(name: str, given: str | None) -> tuple[str | None, str]:
    """Format and compression of results by their file. Raises FileError for a name that promises another format."""
    found, packed = by_suffix(name)
    other = next((s for s in _OTHERS if name.lower().endswith(s)), None)
    if other and given is None:
        remedy = "`.ndjson` has an object a line" if other == ".json" else "such as `.csv`, `.parquet` or `.csv.gz`"
        raise FileError.of(
            f"cannot write {name}: `{other}` is the suffix of another format",
            help=f"{remedy}; `--out-format` keeps the name",
        )
    if packed and (given or found) == "parquet":
        raise FileError.of(f"cannot write {name}: Parquet is compressed within", help="leave the second suffix out")
    return found, packed


def input_format(names: list[str], given: str | None) -> str:
    """The one format of all data files. Raises FileError."""
    if given:
        return given
    found = {by_suffix(n)[0] or "" for n in names if n != "-"} or {"csv"}
    if found == {""}:
        found = {"csv"}
    if len(found) > 1 or "" in found:
        raise FileError.of("the data files have several formats by their names", help="say which: `--in-format csv`")
    return found.pop()
