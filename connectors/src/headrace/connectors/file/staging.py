"""Staged parts and votes in a folder, which survive a crash.

The file of a part is named after it. If that name is longer than a file system permits, which it is only if the pipeline or the
attempt has a very long name, the file is named after a hash, and the long name is in a file next to it.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

from headrace.connectors.file.disk import UNFINISHED, Disk
from headrace.sdk import Part, Transaction

_STAGED = ".part"
_VOTE = ".vote"
_LONG_NAME = ".name"
_MAX_FILE_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Vote:
    """The promise to commit a transaction.

    Attributes:
        id: Distinguishes it from every other vote, also for the same transaction.
        transaction: The transaction.
        parts: The file names of the staged parts that count, in order.
    """

    id: str
    transaction: Transaction
    parts: Sequence[str]


class Staging:
    """A folder with a file for each staged part, and one for each vote."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        """Creates the staging of a folder, and the folder if necessary."""
        self.folder = folder
        self._disk = disk
        disk.make_folder(folder)

    # Parts

    def begin(self, part: Part) -> BinaryIO:
        """Opens the file for a part."""
        return self._disk.create(self.folder / (_part_name(part) + UNFINISHED))

    def finish(self, part: Part, file: BinaryIO) -> None:
        """Makes the written data durable: the part is then staged."""
        self._disk.sync(file)
        name = _part_name(part)
        if name != _full_name(part):
            self._disk.replace(self.folder / (name + _LONG_NAME), _full_name(part).encode())
        self._disk.rename(self.folder / (name + UNFINISHED), self.folder / name)
        self._disk.sync_folder(self.folder)

    def drop(self, part: Part) -> None:
        """Discards a part, staged or not."""
        name = _part_name(part)
        self._disk.remove(self.folder / (name + UNFINISHED))
        self._remove(name)

    def parts(self) -> list[Part]:
        """Returns all staged parts, in order."""
        return sorted(part for path in self.folder.glob(f"*{_STAGED}") if (part := self._part(path)) is not None)

    # Votes

    def vote(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Stores a vote for staged parts durably; drops all other parts of the transaction.

        Raises:
            FileNotFoundError: A part is not staged here.
        """
        names = [_part_name(part) for part in parts]
        for part, name in zip(parts, names, strict=True):
            if not (self.folder / name).exists():
                raise FileNotFoundError(f"{unquote(_full_name(part))} is not staged in {self.folder}")
        standing = self.voted(transaction)
        if standing is None or standing.parts != names:
            fields = {"id": secrets.token_hex(8), **asdict(transaction), "parts": names}
            self._disk.replace(self.folder / _vote_name(transaction), json.dumps(fields).encode())
        self._remove_parts(transaction, names)

    def voted(self, transaction: Transaction) -> Vote | None:
        """Returns the vote for a transaction."""
        path = self.folder / _vote_name(transaction)
        return _vote(path) if path.exists() else None

    def votes(self) -> list[Vote]:
        """Returns all votes."""
        return [_vote(path) for path in sorted(self.folder.glob(f"*{_VOTE}"))]

    def forget(self, vote: Vote) -> None:
        """Removes a vote that was carried out, and its parts. A crash may restore them, which is harmless."""
        standing = self.voted(vote.transaction)
        if standing is not None and standing.id == vote.id:
            self._disk.remove(self.folder / _vote_name(vote.transaction))
        for name in vote.parts:
            self._remove(name)

    def abort(self, transaction: Transaction) -> None:
        """Removes everything of a transaction, the vote before its parts."""
        if self.voted(transaction) is not None:
            self._disk.remove(self.folder / _vote_name(transaction))
            self._disk.sync_folder(self.folder)
        self._remove_parts(transaction)

    def tidy(self) -> None:
        """Removes unfinished files after a crash, and parts that lost a vote. Must not run while something is being staged."""
        for path in self.folder.glob(f"*{UNFINISHED}"):
            self._disk.remove(path)
        for path in self.folder.glob(f"*{_LONG_NAME}"):
            if not path.with_suffix("").exists():
                self._disk.remove(path)
        for path in self.folder.glob(f"*{_STAGED}"):
            # A power failure may restore the file of a part that was removed, and not its name.
            if self._part(path) is None:
                self._disk.remove(path)
        for vote in self.votes():
            self._remove_parts(vote.transaction, vote.parts)

    def _part(self, path: Path) -> Part | None:
        """Returns the part of a file; None if another thread is removing it."""
        name = path.name
        if "," not in name:
            try:
                name = path.with_name(name + _LONG_NAME).read_text()
            except FileNotFoundError:
                return None
        pipeline, batch, partition, attempt, *run = name.removesuffix(_STAGED).split(",")
        return Part(Transaction(unquote(pipeline), int(batch), unquote("".join(run))), int(partition), unquote(attempt))

    def _remove(self, name: str) -> None:
        """Removes the file of a staged part, by its name."""
        self._disk.remove(self.folder / name)
        if "," not in name:
            self._disk.remove(self.folder / (name + _LONG_NAME))

    def _remove_parts(self, transaction: Transaction, but: Sequence[str] = ()) -> None:
        """Removes the staged parts of a transaction."""
        kept = set(but)
        for part in self.parts():
            if part.transaction == transaction and _part_name(part) not in kept:
                self._remove(_part_name(part))


def _quoted(text: str) -> str:
    """Text as part of a file name, without commas and dots."""
    return quote(text, safe="").replace(".", "%2E")


def _full_name(part: Part) -> str:
    """Returns what the file of a staged part is named after, of any length."""
    pipeline, attempt = _quoted(part.transaction.pipeline), _quoted(part.attempt)
    return f"{pipeline},{part.transaction.batch},{part.partition},{attempt}{_of_run(part.transaction)}{_STAGED}"


def _part_name(part: Part) -> str:
    """Returns the name of a staged part's file."""
    return _shortened(_full_name(part), _STAGED)


def _vote_name(transaction: Transaction) -> str:
    """Returns the name of a vote's file."""
    return _shortened(f"{_quoted(transaction.pipeline)},{transaction.batch}{_of_run(transaction)}{_VOTE}", _VOTE)


def _of_run(transaction: Transaction) -> str:
    """Returns the end of a name for what one run writes; empty if the gateway names no run."""
    return f",{_quoted(transaction.run)}" if transaction.run else ""


def _shortened(name: str, suffix: str) -> str:
    """Returns a name that a file can have also while it is unfinished; a hash has no comma, unlike every other name."""
    if len(name) + len(UNFINISHED) <= _MAX_FILE_NAME_BYTES:
        return name
    return hashlib.sha256(name.encode()).hexdigest() + suffix


def _vote(path: Path) -> Vote:
    """Reads a vote."""
    fields = json.loads(path.read_bytes())
    transaction = Transaction(fields["pipeline"], fields["batch"], fields["run"])
    return Vote(fields["id"], transaction, fields["parts"])
