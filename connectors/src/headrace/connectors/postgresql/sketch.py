"""A sketch of a set of tables: of fixed size, it tells a hundred differences from another set. Pure functions.

It is an invertible Bloom lookup table. Each table has a place in each part, and is added to what is there by exclusive or. So the
sketches of two sets, added, leave the differences. A place with one of them names it, and without that, others become single.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2s

_PARTS = 4
_PLACES = 60
"""Places of a part. Of two sets that differ by 120 tables, about one pair in a thousand cannot be told apart."""
_CELL_BYTES = 6


@dataclass(frozen=True, slots=True)
class Sketch:
    """A sketch of a set of tables.

    Attributes:
        cells: For each place, the ids of its tables, each followed by two bytes of its hash, added by exclusive or.
    """

    cells: tuple[int, ...]

    @classmethod
    def of(cls, tables: frozenset[int]) -> "Sketch":
        """Returns the sketch of a set of ids."""
        return _sketched(tables)

    @classmethod
    def read(cls, text: str) -> "Sketch":
        """Reads a text.

        Raises:
            ValueError: It is no sketch.
        """
        data = b64decode(text, validate=True)
        if len(data) != _PARTS * _PLACES * _CELL_BYTES:
            raise ValueError(f"a sketch of {len(data)} bytes")
        return cls(tuple(int.from_bytes(data[at : at + _CELL_BYTES], "big") for at in range(0, len(data), _CELL_BYTES)))

    def text(self) -> str:
        """Returns it as a text of 1,920 characters."""
        return b64encode(b"".join(cell.to_bytes(_CELL_BYTES, "big") for cell in self.cells)).decode()

    def tables(self, now: frozenset[int]) -> frozenset[int] | None:
        """Returns the set of which this is the sketch.

        Args:
            now: Another set, from which it differs little.

        Returns:
            The set; None if it differs too much.
        """
        cells = [one ^ other for one, other in zip(self.cells, Sketch.of(now).cells, strict=True)]
        differing: set[int] = set()
        left = [place for place, cell in enumerate(cells) if cell]
        while left:
            place = left.pop()
            table = cells[place] >> 16
            entry, places = _entry(table)
            if cells[place] != entry or place not in places:
                continue  # There are several, or none is left.
            if table in differing or len(differing) == len(cells):
                return None
            differing.add(table)
            for other in places:
                cells[other] ^= entry
            left += places
        return None if any(cells) else now ^ differing


@lru_cache(maxsize=8)
def _sketched(tables: frozenset[int]) -> Sketch:
    """Each position has the sketch, and tables come and go rarely."""
    cells = [0] * (_PARTS * _PLACES)
    for table in tables:
        entry, places = _entry(table)
        for place in places:
            cells[place] ^= entry
    return Sketch(tuple(cells))


def _entry(table: int) -> tuple[int, list[int]]:
    """Returns what a table adds to a cell, and its places."""
    hashed = blake2s(table.to_bytes(4, "big"), digest_size=2 * _PARTS + 2).digest()
    numbers = [int.from_bytes(hashed[at : at + 2], "big") for at in range(0, len(hashed), 2)]
    return table << 16 | numbers[_PARTS], [part * _PLACES + numbers[part] % _PLACES for part in range(_PARTS)]
