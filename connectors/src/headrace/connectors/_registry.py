"""The connectors that come with Headrace."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connector:
    """A bundled connector.

    Attributes:
        name: What `headrace connector run` calls it.
        kind: `source` or `sink`.
        replayable: Whether the same position always yields the same messages.
        summary: What it reads or writes, in a line.
    """

    name: str
    kind: str
    replayable: bool
    summary: str


CONNECTORS = (Connector("file", "source", True, "lines or length-prefixed records of files, also of growing ones"),)
