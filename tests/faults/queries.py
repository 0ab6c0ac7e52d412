"""The queries that a driver runs, and what its queries leave on disk: their state, and their checkpoints."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.processes import write_whole

BLOCKED = "blocked"


@dataclass(frozen=True)
class Query:
    """A streaming query of the fault tests.

    Kinds: `record` keeps the stream, sequence and value of every row; `state` keeps, by stateful aggregation, the count, the
    sum and the last of the values of each key; `count` keeps how many rows came; `copy` writes rows to the sink of its name;
    `follow` writes each row there with the state of its key after it.
    """

    name: str
    kind: str
    streams: str
    folder: str
    gateway: str
    options: Mapping[str, str] = field(default_factory=dict)
    available_now: bool = False

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint."""
        return Path(self.folder, self.name, "checkpoint")

    # How it goes

    @property
    def outcome_file(self) -> Path:
        """Where the driver says how it ended."""
        return Path(self.folder, self.name, "outcome.json")

    def outcome(self) -> dict[str, str] | None:
        """How it ended, `state` being `stopped` or `failed`; None while it runs."""
        return json.loads(self.outcome_file.read_text()) if self.outcome_file.exists() else None

    def block(self) -> None:
        """Has every batch wait before it reads anything."""
        self._blocked.parent.mkdir(parents=True, exist_ok=True)
        self._blocked.touch()

    def unblock(self) -> None:
        """Lets batches continue."""
        self._blocked.unlink(missing_ok=True)

    @property
    def is_blocked(self) -> bool:
        """Whether batches wait."""
        return self._blocked.exists()

    @property
    def _blocked(self) -> Path:
        return Path(self.folder, self.name, BLOCKED)

    # What its batches saw

    def write_batch(self, batch: int, rows: list[list[Any]]) -> None:
        """Keeps what a batch saw. A batch that is run again replaces what it left before."""
        path = self._batches / f"{batch}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and (before := json.loads(path.read_text())) != rows:
            write_whole(self._batches / f"{batch}.other", json.dumps(before))
        write_whole(path, json.dumps(rows))

    def batches(self) -> list[list[list[Any]]]:
        """What each batch saw, in their order."""
        files = sorted(self._batches.glob("*.json"), key=lambda path: int(path.stem)) if self._batches.exists() else []
        return [json.loads(path.read_text()) for path in files]

    def rows(self) -> list[list[Any]]:
        """What all batches saw."""
        return [row for batch in self.batches() for row in batch]

    def batches_run_again(self) -> Iterator[tuple[int, list[list[Any]], list[list[Any]]]]:
        """Batches that saw something else when they were run again: their number, what they saw before, and then."""
        for path in sorted(self._batches.glob("*.other")):
            yield int(path.stem), json.loads(path.read_text()), json.loads(path.with_suffix(".json").read_text())

    @property
    def _batches(self) -> Path:
        return Path(self.folder, self.name, "batches")

    # What its checkpoint says

    def committed(self, stream: str) -> int:
        """The sequence up to which the checkpoint's commit log says that the stream was read; 0 for nothing."""
        return self._sequence(self._latest("commits"), stream)

    def planned(self, stream: str) -> int:
        """The sequence up to which the last batch reads or has read the stream; 0 for nothing."""
        return self._sequence(self._latest("offsets"), stream)

    def has_committed(self, stream: str, sequence: int) -> bool:
        """Whether the checkpoint says that the stream was read up to a sequence."""
        return self.committed(stream) >= sequence

    @property
    def commits(self) -> int:
        """How many batches were committed."""
        return self._latest("commits") + 1

    @property
    def plans(self) -> int:
        """How many batches were planned."""
        return self._latest("offsets") + 1

    def offset(self, batch: int) -> dict[str, Any] | None:
        """Where a batch ends; None where it was never planned."""
        path = self.checkpoint / "offsets" / str(batch)
        return json.loads(path.read_text().splitlines()[-1]) if path.exists() else None

    def write_offset(self, batch: int, offset: dict[str, Any]) -> None:
        """Plans a batch, in Spark's stead."""
        for log in ("offsets", "commits"):
            (self.checkpoint / log).mkdir(parents=True, exist_ok=True)
        write_whole(self.checkpoint / "offsets" / str(batch), json.dumps(offset))

    def _latest(self, log: str) -> int:
        folder = self.checkpoint / log
        numbers = [int(path.name) for path in folder.iterdir() if path.name.isdecimal()] if folder.exists() else []
        return max(numbers, default=-1)

    def _sequence(self, batch: int, stream: str) -> int:
        offset = self.offset(batch) or {"streams": {}}
        sequence = offset["streams"].get(stream, {}).get("sequence", 0)
        assert isinstance(sequence, int)
        return sequence

    # To and from the driver

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> "Query":
        """The query of such a line."""
        return cls(**json.loads(line))
