"""What a file sink has made visible, read without a line of the product's code."""

from collections import defaultdict
from pathlib import Path


def lines(folder: Path) -> list[str]:
    """Every whole line of the sink's files, in the order in which they became visible.

    A file that is being appended to may end within a line, as any log does to who reads it meanwhile.
    """
    whole = (file.read_bytes().rpartition(b"\n")[0] for file in sorted(folder.glob("*.lines")))
    return [line for text in whole for line in text.decode().splitlines()]


def by_stream(folder: Path) -> dict[str, list[tuple[int, str]]]:
    """Sequences and values of each stream, in the order in which they became visible."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in lines(folder):
        stream, sequence, value = line.split(":")
        found[stream].append((int(sequence), value))
    return found
