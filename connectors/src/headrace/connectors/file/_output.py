"""The files that a file sink shows, and how a transaction gets into them exactly once."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.connectors.file._disk import Disk
from headrace.connectors.file._staging import Staging, Vote
from headrace.sdk import Transaction

_STATE = "state.json"
_COMMIT = "commit.json"
_COPY_BYTES = 1 << 20
_OWN_FILE_BYTES = 8 << 20
"""A part that is so large begins a file, by being renamed: to copy it would write it twice."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """When to begin a new file. One also begins with whatever comes in a piece of 8 MiB or more.

    Attributes:
        bytes: Once the file has as many bytes.
        seconds: Once it is that old; None for never.
    """

    bytes: int = 128 << 20
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Current:
    """The file that is appended to."""

    file: str
    bytes: int
    began: float
    """When, in seconds since 1970-01-01 UTC."""


@dataclass(frozen=True, slots=True)
class _State:
    """What is visible.

    Attributes:
        batches: The last committed batch of each pipeline.
        votes: The vote by which it was committed.
        files: How many files there have been.
        current: The file that is appended to, if any.
    """

    batches: Mapping[str, int] = field(default_factory=dict)
    votes: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    current: _Current | None = None

    def has(self, vote: Vote) -> bool:
        """True where a vote is carried out."""
        return self.votes.get(vote.transaction.pipeline) == vote.id


@dataclass(frozen=True, slots=True)
class _Step:
    """Where a staged part goes: to an offset of a file, or, at 0, to be that file."""

    part: str
    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Commit:
    """What a commit does; written down before it does anything, so that it can be done again after a crash."""

    vote: Vote
    steps: list[_Step]
    after: _State


class Output:
    """A folder of files, and a hidden one that says what is in them."""

    def __init__(self, folder: Path, hidden: Path, name: str, suffix: str, rotation: Rotation, disk: Disk) -> None:
        """Shows files `name-<number><suffix>` in a folder."""
        self._folder = folder
        self._hidden = hidden
        self._name = name
        self._suffix = suffix
        self._rotation = rotation
        self._disk = disk

    def committed(self) -> list[Transaction]:
        """The last committed transaction of each pipeline."""
        return [Transaction(pipeline, batch) for pipeline, batch in self._state().batches.items()]

    def shows(self, transaction: Transaction) -> bool:
        """True where a transaction, or a later one of its pipeline, is visible."""
        return self._state().batches.get(transaction.pipeline, -1) >= transaction.batch

    def show(self, vote: Vote, staging: Staging) -> None:
        """Makes the parts of a vote visible, unless they are."""
        state = self._state()
        if not state.has(vote):
            commit = self._plan(vote, state, staging)
            self._disk.replace(self._hidden / _COMMIT, _to_json(commit))
            self._carry_out(commit, staging)
        staging.forget(vote)
        self._disk.remove(self._hidden / _COMMIT)

    def finish(self, staging: Staging) -> None:
        """Goes on with a commit that was interrupted, if there is one, and removes what finished ones have left."""
        path = self._hidden / _COMMIT
        if path.exists():
            commit = _commit(json.loads(path.read_bytes()))
            if not self._state().has(commit.vote):
                self._carry_out(commit, staging)
            staging.forget(commit.vote)
            self._disk.remove(path)
        for vote in staging.votes():
            if self._state().has(vote):
                staging.forget(vote)

    def rotate(self) -> None:
        """Begins a new file, an empty one, where that is due though nothing has come. No commit may be unfinished."""
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
        """Decides where the parts of a vote go."""
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
        """The number of the next file that does not exist."""
        files += 1
        while (self._folder / self._file(files)).exists():
            files += 1
        return files

    def _usable(self, state: _State) -> _Current | None:
        """The current file, unless somebody has taken or changed it, it is of another format, or there is a next one."""
        current = state.current
        if current is None or not current.file.endswith(self._suffix):
            return None
        if (self._folder / self._file(state.files + 1)).exists():
            # A crash came between its creation and the note of it; the current one counts as complete since then.
            return None
        path = self._folder / current.file
        return current if path.exists() and path.stat().st_size == current.bytes else None

    def _is_full(self, current: _Current, now: float) -> bool:
        """True where a new file is due."""
        seconds = self._rotation.seconds
        is_old = seconds is not None and now - current.began >= seconds
        return current.bytes > 0 and (current.bytes >= self._rotation.bytes or is_old)

    def _carry_out(self, commit: _Commit, staging: Staging) -> None:
        """Does what a commit says. What an earlier try has done already is done again, with the same bytes."""
        for step in commit.steps:
            staged, file = staging.folder / step.part, self._folder / step.file
            if step.offset:
                self._append(staged, file, step.offset)
            else:
                # There was none, or an empty one, when this was planned: if there is more now, it is the staged one.
                if not file.exists() or file.stat().st_size == 0:
                    self._disk.rename(staged, file)
                self._disk.sync_folder(self._folder)
        self._disk.replace(self._hidden / _STATE, _to_json(commit.after))

    def _append(self, staged: Path, file: Path, offset: int) -> None:
        """Copies a staged part to its place, durably. Bytes that are visible stay so: they are written over with the same."""
        with self._disk.modify(file) as output:
            output.seek(offset)
            for data in _chunks(staged):
                self._disk.write(output, data)
            self._disk.sync(output)

    def _file(self, number: int) -> str:
        """The name of a file."""
        return f"{self._name}-{number:06}{self._suffix}"

    def _state(self) -> _State:
        """Reads what is visible."""
        path = self._hidden / _STATE
        return _from_json(json.loads(path.read_bytes())) if path.exists() else _State()


def _chunks(path: Path) -> Iterator[bytes]:
    """The content of a file."""
    with path.open("rb", buffering=0) as file:
        while data := file.read(_COPY_BYTES):
            yield data


def _to_json(what: _State | _Commit) -> bytes:
    """As it is stored."""
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
