"""The visible files of a file sink, and how a transaction is written to them exactly once."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.connectors.file.disk import UNFINISHED, Disk
from headrace.connectors.file.staging import Staging, Vote
from headrace.connectors.sink_folder import COMMIT
from headrace.sdk import Transaction

_STATE = "state.json"
_COPY_BYTES = 1 << 20
_OWN_FILE_BYTES = 8 << 20
"""A part of at least this size, in bytes, becomes a new file by renaming: copying would write it twice."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """When to start a new file. A part of 8 MiB or more also starts one.

    Attributes:
        bytes: Maximum size of a file, in bytes.
        seconds: Maximum age of a file, in seconds; None for no limit.
    """

    bytes: int = 128 << 20
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Current:
    """The file that is appended to."""

    file: str
    bytes: int
    began: float
    """When it was started, in seconds since 1970-01-01 UTC."""


@dataclass(frozen=True, slots=True)
class _State:
    """The visible state.

    Attributes:
        batches: The last committed batch of each pipeline.
        votes: The vote by which it was committed.
        files: The number of files so far.
        current: The file that is appended to, if any.
    """

    batches: Mapping[str, int] = field(default_factory=dict)
    votes: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    current: _Current | None = None

    def has(self, vote: Vote) -> bool:
        """Returns whether a vote is already carried out."""
        return self.votes.get(vote.transaction.pipeline) == vote.id


@dataclass(frozen=True, slots=True)
class _Step:
    """The destination of a staged part: an offset of a file, or, at 0, the whole file."""

    part: str
    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Commit:
    """The plan of a commit; stored before it does anything, so that it can be repeated after a crash."""

    vote: Vote
    steps: list[_Step]
    after: _State


class Output:
    """A folder of files, and a hidden folder that records what is in them."""

    def __init__(self, folder: Path, hidden: Path, name: str, suffix: str, rotation: Rotation, disk: Disk) -> None:
        """Creates the output of files `name-<number><suffix>` in a folder."""
        self._folder = folder
        self._hidden = hidden
        self._name = name
        self._suffix = suffix
        self._rotation = rotation
        self._disk = disk

    def committed(self) -> list[Transaction]:
        """Returns the last committed transaction of each pipeline."""
        return [Transaction(pipeline, batch) for pipeline, batch in self._state().batches.items()]

    def shows(self, transaction: Transaction) -> bool:
        """Returns whether a transaction, or a later one of its pipeline, is visible."""
        return self._state().batches.get(transaction.pipeline, -1) >= transaction.batch

    def show(self, vote: Vote, staging: Staging) -> None:
        """Makes the parts of a vote visible, unless they already are."""
        state = self._state()
        if not state.has(vote):
            commit = self._plan(vote, state, staging)
            self._disk.replace(self._hidden / COMMIT, _to_json(commit))
            self._carry_out(commit, staging)
        staging.forget(vote)
        self._disk.remove(self._hidden / COMMIT)

    def finish(self, staging: Staging) -> None:
        """Finishes an interrupted commit, if there is one, and removes the remains of finished ones."""
        path = self._hidden / COMMIT
        if path.exists():
            commit = _commit(json.loads(path.read_bytes()))
            if not self._state().has(commit.vote):
                self._carry_out(commit, staging)
            staging.forget(commit.vote)
            self._disk.remove(path)
        for vote in staging.votes():
            if self._state().has(vote):
                staging.forget(vote)

    def tidy(self) -> None:
        """Removes what an earlier process has not finished. No commit may be in progress."""
        for path in self._hidden.glob(f"*{UNFINISHED}"):
            self._disk.remove(path)

    def rotate(self) -> None:
        """Starts a new, empty file if one is due, even if nothing was written. Call it only between commits."""
        state, now = self._state(), time.time()
        current = self._usable(state)
        if current is None or not self._is_full(current, now):
            return
        files = self._free(state.files)
        self._disk.create(self._folder / self._file(files)).close()
        self._disk.sync_folder(self._folder)
        after = replace(state, files=files, current=_Current(self._file(files), 0, now))
        self._disk.replace(self._hidden / _STATE, _to_json(after))

    def _plan(self, vote: Vote, state: _State, staging: Staging) -> _Commit:
        """Plans the destinations of the parts of a vote."""
        current, files, now = self._usable(state), state.files, time.time()
        steps = []
        for part in vote.parts:
            size = (staging.folder / part).stat().st_size
            if size == 0:
                continue
            if current is not None and current.bytes == 0:
                current = replace(current, began=now)
            elif current is None or size >= _OWN_FILE_BYTES or self._is_full(current, now):
                files = self._free(files)
                current = _Current(self._file(files), 0, now)
            steps.append(_Step(part, current.file, current.bytes))
            current = replace(current, bytes=current.bytes + size)
        pipeline, batch = vote.transaction.pipeline, vote.transaction.batch
        after = _State({**state.batches, pipeline: batch}, {**state.votes, pipeline: vote.id}, files, current)
        return _Commit(vote, steps, after)

    def _free(self, files: int) -> int:
        """Returns the number of the next file that does not exist."""
        files += 1
        while (self._folder / self._file(files)).exists():
            files += 1
        return files

    def _usable(self, state: _State) -> _Current | None:
        """Returns the current file, unless it was moved or changed, is of another format, or is followed by a next one."""
        current = state.current
        if current is None or not current.file.endswith(self._suffix):
            return None
        if (self._folder / self._file(state.files + 1)).exists():
            # A crash happened between the creation of the next file and its record; the current one has been complete since then.
            return None
        path = self._folder / current.file
        return current if path.exists() and path.stat().st_size == current.bytes else None

    def _is_full(self, current: _Current, now: float) -> bool:
        """Returns whether a new file is due."""
        seconds = self._rotation.seconds
        is_old = seconds is not None and now - current.began >= seconds
        return current.bytes > 0 and (current.bytes >= self._rotation.bytes or is_old)

    def _carry_out(self, commit: _Commit, staging: Staging) -> None:
        """Carries out a commit. It repeats what an earlier attempt has done, with the same bytes."""
        for step in commit.steps:
            staged, file = staging.folder / step.part, self._folder / step.file
            if step.offset:
                self._append(staged, file, step.offset)
            else:
                # There was no file, or an empty one, when this was planned: if there is content now, it is the staged part.
                if not file.exists() or file.stat().st_size == 0:
                    self._disk.rename(staged, file)
                self._disk.sync_folder(self._folder)
        self._disk.replace(self._hidden / _STATE, _to_json(commit.after))

    def _append(self, staged: Path, file: Path, offset: int) -> None:
        """Copies a staged part to its destination, durably. Visible bytes are overwritten with the same bytes."""
        with self._disk.modify(file) as output:
            output.seek(offset)
            for data in _chunks(staged):
                self._disk.write(output, data)
            self._disk.sync(output)

    def _file(self, number: int) -> str:
        """Returns the name of a file, by its number."""
        return f"{self._name}-{number:06}{self._suffix}"

    def _state(self) -> _State:
        """Reads the visible state."""
        path = self._hidden / _STATE
        return _from_json(json.loads(path.read_bytes())) if path.exists() else _State()


def _chunks(path: Path) -> Iterator[bytes]:
    """Yields the content of a file."""
    with path.open("rb", buffering=0) as file:
        while data := file.read(_COPY_BYTES):
            yield data


def _to_json(what: _State | _Commit) -> bytes:
    """Returns the stored form."""
    return json.dumps(asdict(what)).encode()


def _from_json(fields: dict[str, Any]) -> _State:
    """Reads a state."""
    current = fields["current"]
    return _State(fields["batches"], fields["votes"], fields["files"], None if current is None else _Current(**current))


def _commit(fields: dict[str, Any]) -> _Commit:
    """Reads a commit."""
    vote = fields["vote"]
    return _Commit(
        Vote(vote["id"], Transaction(**vote["transaction"]), vote["parts"]),
        [_Step(**step) for step in fields["steps"]],
        _from_json(fields["after"]),
    )
