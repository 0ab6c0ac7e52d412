"""The words of the protocol's enums. A gateway of a later release may send a value that this one does not know."""

from collections.abc import Iterable

UNKNOWN = "unknown"
"""The word for a value that this release does not know."""


class Words:
    """The words of one enum: its names without their prefix, in lower case."""

    def __init__(self, values: Iterable[tuple[str, int]], prefix: str, between: str = "-") -> None:
        """Creates them.

        Args:
            values: The names and numbers of the enum.
            prefix: What all names begin with.
            between: What stands between the parts of a word.
        """
        self._words = {number: name.removeprefix(prefix).lower().replace("_", between) for name, number in values if number}

    def __getitem__(self, number: int) -> str:
        return self._words.get(number, UNKNOWN)
