"""One line of NDJSON as an object, exactly: numbers keep their text, a name that appears twice is known."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from gradcli.formats.cells import shorten

HINT = 'NDJSON has one object a line: `{"x": 1}`'
_UNPACK = '`jq -c ".[]"` writes an array as NDJSON, `jq -c .` an object of several lines'


class Text(str):
    """The text of a number, as it stands in the file."""


class _Object(dict[str, Any]):
    """An object in which a name appears twice; the last value counts, as for most readers."""

    twice: frozenset[str] = frozenset()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    marked = _Object(found)
    marked.twice = frozenset(k for i, (k, _) in enumerate(pairs) if k in {p[0] for p in pairs[:i]})
    return marked


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def read_object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object of a line, numbers as `Text`; or None and why there is none."""
    try:
        found = json.loads(
            line.decode(), parse_float=Text, parse_int=Text, parse_constant=_refuse, object_pairs_hook=_pairs
        )
    except json.JSONDecodeError as fault:
        what = fault.msg.removesuffix(" at")
        what = "extra data after the object" if what == "Extra data" else what[:1].lower() + what[1:]
        return None, f"{what} (character {fault.pos + 1})"
    except UnicodeDecodeError as fault:
        return None, f"byte 0x{fault.object[fault.start]:02x} is not UTF-8"
    except (ValueError, RecursionError) as fault:
        return None, str(fault) if isinstance(fault, ValueError) else "it is nested too deeply"
    return (found, "") if isinstance(found, dict) else (None, "this is no object")


def remedy(line: bytes) -> str:
    """What to do about a line that is no object: an array, or an object over several lines, is JSON all the same."""
    return _UNPACK if line.strip() == b"{" or line.lstrip().startswith(b"[") else HINT


def repeated(found: dict[str, Any], names: Collection[str]) -> str | None:
    """Why an object is no row: one of the names appears twice in it, here or in an object that one of them holds."""
    if isinstance(found, _Object) and (odd := sorted(found.twice.intersection(names))):
        return f"`{shorten(odd[0])}` appears twice"
    rest = [v for n, v in found.items() if n in names]
    while rest:
        value = rest.pop()
        if isinstance(value, _Object):
            return f"`{shorten(min(value.twice))}` appears twice"
        if isinstance(value, dict | list):
            rest += value.values() if isinstance(value, dict) else value
    return None


def is_text(text: str) -> bool:
    """Whether a text can be written: half of a surrogate pair stands for no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str | None:
    """A value as the cell of a table: the text of numbers as it stands in the file."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return dump(value)


class _Mark(str):
    """What stands between values: brackets, commas, names."""


def dump(value: Any) -> str:
    """A value as JSON, numbers as they stand in the file."""
    pieces: list[str] = []
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            parts = [part for k, v in item.items() for part in (_Mark(f", {_spelled(k)}: "), v)]
            parts[:1] = [_Mark(parts[0][2:])] if parts else []
            rest += reversed([_Mark("{"), *parts, _Mark("}")])
        elif isinstance(item, list):
            parts = [part for v in item for part in (_Mark(", "), v)][1:]
            rest += reversed([_Mark("["), *parts, _Mark("]")])
        else:
            pieces.append(str(item) if isinstance(item, Text | _Mark) else _spelled(item))
    return "".join(pieces)


def _spelled(value: Any) -> str:
    """Half of a surrogate pair stays an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if is_text(text) else json.dumps(value)
