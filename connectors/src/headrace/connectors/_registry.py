"""The connectors that come with Headrace."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Connector:
    """A bundled connector.

    Attributes:
        name: What `headrace connector run` calls it.
        kind: `source` or `sink`.
        replayable: Whether the same position always yields the same messages; None for a sink.
        mode: What a sink promises: two-phase, batch-idempotent or at-least-once; None for a source.
        summary: What it reads or writes, in a line.
    """

    name: str
    kind: str
    replayable: bool | None
    mode: str | None
    summary: str


CONNECTORS = (
    Connector("file", "source", True, None, "lines or length-prefixed records of files, also of growing ones"),
    Connector("file-sink", "sink", None, "two-phase", "JSON lines, raw lines or length-prefixed records, exactly once"),
    Connector("stdout-sink", "sink", None, "at-least-once", "values or JSON lines, to look at"),
)
