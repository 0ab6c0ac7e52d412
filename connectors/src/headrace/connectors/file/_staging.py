"""Staged parts and votes in a folder, which survive a crash."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

from headrace.connectors.file._disk import Disk
from headrace.sdk import Part, Transaction

_STAGED = ".part"
_VOTE = ".vote"
_UNFINISHED = ".tmp"


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
        return self._disk.create(self.folder / (_part_name(part) + _UNFINISHED))

    def finish(self, part: Part, file: BinaryIO) -> None:
        """Makes the written data durable: the part is then staged."""
        self._disk.sync(file)
        name = _part_name(part)
        self._disk.rename(self.folder / (name + _UNFINISHED), self.folder / name)
        self._disk.sync_folder(self.folder)

    def drop(self, part: Part) -> None:
        """Discards a part, staged or not."""
        name = _part_name(part)
        self._disk.remove(self.folder / (name + _UNFINISHED))
        self._disk.remove(self.folder / name)

    def parts(self) -> list[Part]:
        """Returns all staged parts, in order."""
        return sorted(_part(path.name) for path in self.folder.glob(f"*{_STAGED}"))

    # Votes

    def vote(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Stores a vote for staged parts durably; drops all other parts of the transaction.

        Raises:
            FileNotFoundError: A part is not staged here.
        """
        names = [_part_name(part) for part in parts]
        for name in names:
            if not (self.folder / name).exists():
                raise FileNotFoundError(f"{unquote(name)} is not staged in {self.folder}")
        standing = self.voted(transaction)
        if standing is None or standing.parts != names:
            fields = {"id": secrets.token_hex(8), "pipeline": transaction.pipeline, "batch": transaction.batch, "parts": names}
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
            self._disk.remove(self.folder / name)

    def abort(self, transaction: Transaction) -> None:
        """Removes everything of a transaction, the vote before its parts."""
        if self.voted(transaction) is not None:
            self._disk.remove(self.folder / _vote_name(transaction))
            self._disk.sync_folder(self.folder)
        self._remove_parts(transaction)

    def tidy(self) -> None:
        """Removes unfinished files after a crash, and parts that lost a vote. Must not run while something is being staged."""
        for path in self.folder.glob(f"*{_UNFINISHED}"):
            self._disk.remove(path)
        for vote in self.votes():
            self._remove_parts(vote.transaction, vote.parts)

    def _remove_parts(self, transaction: Transaction, but: Sequence[str] = ()) -> None:
        """Removes the staged parts of a transaction."""
        kept = set(but)
        for part in self.parts():
            if part.transaction == transaction and _part_name(part) not in kept:
                self._disk.remove(self.folder / _part_name(part))


def _quoted(text: str) -> str:
    """Text as part of a file name, without commas and dots."""
    return quote(text, safe="").replace(".", "%2E")


def _part_name(part: Part) -> str:
    """Returns the name of a staged part's file."""
    pipeline, attempt = _quoted(part.transaction.pipeline), _quoted(part.attempt)
    return f"{pipeline},{part.transaction.batch},{part.partition},{attempt}{_STAGED}"


def _part(name: str) -> Part:
    """Returns the part of a file with this name."""
    pipeline, batch, partition, attempt = name.removesuffix(_STAGED).split(",")
    return Part(Transaction(unquote(pipeline), int(batch)), int(partition), unquote(attempt))


def _vote_name(transaction: Transaction) -> str:
    """Returns the name of a vote's file."""
    return f"{_quoted(transaction.pipeline)},{transaction.batch}{_VOTE}"


def _vote(path: Path) -> Vote:
    """Reads a vote."""
    fields = json.loads(path.read_bytes())
    return Vote(fields["id"], Transaction(fields["pipeline"], fields["batch"]), fields["parts"])
