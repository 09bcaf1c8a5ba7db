"""What only some nodes of a graph have, in flat arrays that read like dicts by node: numbers, labels."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import Any, Self, TypeVar

_T = TypeVar("_T")
_NONE = array("i", (-1,))


class Sparse(Mapping[int, _T]):
    """Items of nodes, added in the order of these. A tenth of the memory of a dict from numbers to objects.

    `nodes`: those that have an item; `places`: for each node the place of its item, or -1, up to the last that has one.
    """

    __slots__ = ("nodes", "places", "texts")

    def __init__(self) -> None:
        self.nodes, self.places = array("i"), array("i")
        self.texts: list[str] = []

    def __copy__(self) -> Self:
        other = type(self)()
        other.nodes, other.places, other.texts = self.nodes[:], self.places[:], self.texts[:]
        return other

    def _item(self, place: int) -> _T:
        raise NotImplementedError

    def _claim(self, node: int) -> None:
        """Give the item that is added next to a node behind all that have one."""
        self.places.extend(_NONE * (node - len(self.places)))
        self.places.append(len(self.nodes))
        self.nodes.append(node)

    def get(self, node: int, default: Any = None) -> Any:
        places = self.places
        if 0 <= node < len(places) and (place := places[node]) >= 0:
            return self._item(place)
        return default

    def __getitem__(self, node: int) -> _T:
        if node not in self:
            raise KeyError(node)
        return self._item(self.places[node])

    def __contains__(self, node: Any) -> bool:
        return bool(0 <= node < len(self.places) and self.places[node] >= 0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)})"


class Labels(Sparse[str]):
    """What leaves and names are called."""

    __slots__ = ()

    def _item(self, place: int) -> str:
        return self.texts[place]

    def add(self, node: int, label: str) -> None:
        self._claim(node)
        self.texts.append(label)


class Constants(Sparse[tuple[float, str]]):
    """The values of constants, and their decimals as written."""

    __slots__ = ("floats",)

    def __init__(self) -> None:
        super().__init__()
        self.floats = array("d")

    def __copy__(self) -> Self:
        other = super().__copy__()
        other.floats = self.floats[:]
        return other

    def _item(self, place: int) -> tuple[float, str]:
        return self.floats[place], self.texts[place]

    def add(self, node: int, value: float, text: str) -> None:
        self._claim(node)
        self.floats.append(value)
        self.texts.append(text)

    def value(self, node: int) -> float | None:
        """The number itself, where there is one."""
        places = self.places
        return self.floats[place] if 0 <= node < len(places) and (place := places[node]) >= 0 else None

    def spell(self, node: int, text: str) -> None:
        """Write a number otherwise."""
        self.texts[self.places[node]] = text
