"""The checkpoint of a query: what Spark and Headrace's engine store durably."""

from dataclasses import dataclass, field

from headrace.engine.checkpoint.position import Offset, Position


class MemoryFolder:
    """A folder of a checkpoint: `headrace.engine.checkpoint.folder.Folder`."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}

    def names(self) -> list[str]:
        """The names of all files."""
        return list(self._files)

    def read(self, name: str) -> str:
        """The content of a file.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def write(self, name: str, text: str) -> None:
        """Creates a file."""
        self._files[name] = text

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""
        self._files.pop(name, None)


@dataclass(frozen=True)
class Commit:
    """A batch in the commit log.

    Attributes:
        run: The run that has written the entry.
        rows: The rows of the attempts that count.
    """

    run: str
    rows: tuple[bytes, ...]


@dataclass
class Checkpoint:
    """The files that a query has stored."""

    query: str
    pipeline: str
    offsets: dict[int, Offset] = field(default_factory=dict)
    commits: dict[int, Commit] = field(default_factory=dict)
    runs: MemoryFolder = field(default_factory=MemoryFolder)
    votes: str | None = None
    beginnings: int = 0

    @property
    def last(self) -> int | None:
        """The last batch in the commit log."""
        return max(self.commits, default=None)

    @property
    def next(self) -> int:
        """The batch after it."""
        return 0 if self.last is None else self.last + 1

    def owner(self, batch: int) -> str | None:
        """Returns the run that has written a batch's entry in the commit log; None if there is none."""
        return self.commits[batch].run if batch in self.commits else None

    def has_committed(self, stream: str, end: Position) -> bool:
        """Returns whether the commit log has a stream up to a position: its source may have deleted that."""
        if self.last is None:
            return False
        # A stream that the offset omits was removed, and all of it was committed.
        known = self.offsets[self.last].streams.get(stream)
        return known is None or end <= known

    def store_votes(self, text: str) -> None:
        """Replaces the file of the votes."""
        self.votes = text

    def begin(self) -> Offset:
        """Returns the offset before all messages: a new checkpoint's id each time, as the planner does."""
        self.beginnings += 1
        return Offset(self.pipeline, {}, checkpoint=f"checkpoint-{self.query}-{self.beginnings}")
