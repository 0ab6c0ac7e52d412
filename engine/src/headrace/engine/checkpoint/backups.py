"""Copies of a checkpoint, taken while its query runs: as of a committed micro-batch, whole, and never used in place.

A backup is a folder with the files of the checkpoint in `files`, and a description, `headrace-backup.json`, which is written
last.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.contents import SOURCES, Contents, check_states, contents, last_committed
from headrace.engine.checkpoint.log import SPARK_STATES, UNFINISHED
from headrace.engine.checkpoint.trees import Digest, HadoopTree, LocalTree, Tree

DESCRIPTION = "headrace-backup.json"
FORMAT = 1
_FILES = "files/"
_OF_SPARK = (f"{SPARK_STATES}/", f"{SOURCES}/")
"""What Spark cleans up at any time, as it does not need the oldest of it."""
_ROUNDS = 50
"""How often a copy begins again because the query has deleted what was to be copied. Each round copies only what is new."""


class _Changed(Exception):
    """Spark has removed an old file between its listing and its copy."""


@dataclass(frozen=True)
class Backup:
    """The description of a backup.

    Attributes:
        checkpoint: Where the checkpoint was.
        query: The id of its query.
        batch: Its last committed micro-batch.
        located: Whether it can be used only where it was, since Spark's operators have stored their location.
        files: All files, by their names in the checkpoint.
    """

    checkpoint: str
    query: str
    batch: int
    located: bool
    files: Mapping[str, Digest]

    @property
    def bytes(self) -> int:
        """The size of all files, in bytes."""
        return sum(digest.bytes for digest in self.files.values())


@dataclass(frozen=True)
class Verification:
    """Whether a backup or a checkpoint is whole.

    Attributes:
        batch: Its last committed micro-batch; None if that is unknown.
        files: The number of files that were examined.
        wrong: The errors, in sentences; empty if it is whole.
        backup: The backup; None for a checkpoint.
    """

    batch: int | None
    files: int
    wrong: tuple[str, ...]
    backup: Backup | None = field(default=None, repr=False)


def back_up_checkpoint(checkpoint: str, into: str, spark: SparkSession | None = None) -> Backup:
    """Copies a checkpoint, whose query may run meanwhile. The copy is as of a micro-batch that is committed by then.

    Args:
        checkpoint: The folder of the checkpoint.
        into: The folder of the backup, which must not exist.
        spark: A session; None if both are on disks of this machine.

    Raises:
        CheckpointError: The checkpoint is incomplete or damaged, or `into` exists.
        OSError: A file cannot be read or written. The backup is then not finished, and `verify_checkpoint` names that.
    """
    return back_up(_tree(checkpoint, spark), _tree(into, spark))


def back_up(source: Tree, target: Tree) -> Backup:
    """See `back_up_checkpoint`."""
    last_committed(source)
    _begin(target)
    backup = _copy_whole(source, target)
    document = {**asdict(backup), "format": FORMAT, "files": {name: [d.bytes, d.sha256] for name, d in backup.files.items()}}
    target.settle()
    target.folder("").write(DESCRIPTION, json.dumps({**document, "sha256": _sum_of(document)}, indent=1))
    target.delete(UNFINISHED)
    return backup


def verify_checkpoint(folder: str, spark: SparkSession | None = None) -> Verification:
    """Examines every file of a backup, or what the last committed micro-batch of a checkpoint needs.

    Args:
        folder: The backup, or the checkpoint, whose query may run.
        spark: A session; None if the folder is on a disk of this machine.
    """
    tree = _tree(folder, spark)
    names = tree.folder("").names()
    try:
        if DESCRIPTION in names or any(name.startswith(_FILES) for name in tree.below(_FILES.rstrip("/"))):
            return _verified_backup(tree)
        found, wrong = _examined(tree)
    except CheckpointError as error:
        return Verification(None, 0, (str(error),))
    return Verification(found.batch, len(found.lasting) + len(found.others), tuple(wrong))


def restore_checkpoint(backup: str, into: str, spark: SparkSession | None = None) -> Backup:
    """Copies the checkpoint of a backup to a new folder, and examines each file on the way.

    Args:
        backup: The folder of the backup.
        into: The folder of the checkpoint, which must not exist.
        spark: A session; None if both are on disks of this machine.

    Raises:
        CheckpointError: The backup is not whole, or `into` exists, or Spark can use the checkpoint only where it was. No query
            starts on what was written.
        OSError: A file cannot be read or written.
    """
    source, target = _tree(backup, spark), _tree(into, spark)
    described = _described(source)
    if described.located and target.url != described.checkpoint:
        raise CheckpointError(
            f"the query uses operators of Spark that have stored their location: restore it to {described.checkpoint}, once "
            "nothing is left"
        )
    _begin(target)
    for name, digest in described.files.items():
        try:
            found = target.take(name, source, _FILES + name)
        except FileNotFoundError:
            raise _torn(source, target, f"{name} is missing") from None
        if found != digest:
            raise _torn(source, target, f"{name} is not what was copied")
    target.settle()
    target.delete(UNFINISHED)
    return described


def _copy_whole(source: Tree, target: Tree) -> Backup:
    """Copies the files of a checkpoint, beginning again whenever the query has deleted what was to be copied."""
    digests: dict[str, Digest] = {}
    for _ in range(_ROUNDS):
        batch = last_committed(source)
        try:
            found = contents(source)
            names = _copied(source, target, found, digests)
        except FileNotFoundError as missing:
            if last_committed(source) == batch:
                raise CheckpointError(f"{source.url} is not whole: {missing} is missing; restore it from a backup") from None
            continue
        except _Changed:
            continue
        for name in digests.keys() - names:
            target.delete(_FILES + name)
        if found.states is not None and (wrong := check_states(target, found.states, _FILES)):
            raise CheckpointError(f"{source.url} is not whole: {'; '.join(wrong[:3])}; restore it from a backup")
        files = {name: digests[name] for name in sorted(names)}
        return Backup(source.url, found.query, found.batch, found.located, files)
    raise CheckpointError(
        f"{source.url} changes faster than it can be copied: set spark.sql.streaming.minBatchesToRetain of the query to a larger "
        "number, or stop the query"
    )


def _copied(source: Tree, target: Tree, contents: Contents, digests: dict[str, Digest]) -> set[str]:
    """Copies what is not copied yet; returns the names of all files that belong to the backup."""
    lasting = set(contents.lasting)
    for name in (*contents.lasting, *contents.others):
        if name in digests and name in lasting:
            continue
        try:
            digests[name] = target.take(_FILES + name, source, name)
        except FileNotFoundError as missing:
            if name.startswith(_OF_SPARK):
                raise _Changed from missing
            raise
    names = {*contents.lasting, *contents.others}
    for name in contents.older:
        try:
            digests[name] = target.take(_FILES + name, source, name)
        except FileNotFoundError:
            continue  # Spark removes the oldest entries of its logs.
        names.add(name)
    return names


def _examined(tree: Tree) -> tuple[Contents, list[str]]:
    """The files that a checkpoint needs as of its last committed micro-batch, and the errors in them."""
    for _ in range(_ROUNDS):
        batch = last_committed(tree)
        try:
            found = contents(tree)
            wrong = [] if found.states is None else check_states(tree, found.states)
        except FileNotFoundError as missing:
            if last_committed(tree) == batch:
                raise CheckpointError(f"{tree.url} is not whole: {missing} is missing; restore it from a backup") from None
            continue
        if not wrong or last_committed(tree) == batch:
            return found, wrong
    raise CheckpointError(f"{tree.url} changes faster than it can be examined: take a backup, and verify that")


def _verified_backup(tree: Tree) -> Verification:
    described = _described(tree)
    wrong, there = [], {name.removeprefix(_FILES) for name in tree.below(_FILES.rstrip("/"))}
    for name, digest in described.files.items():
        if name not in there:
            wrong.append(f"{name} is missing")
            continue
        try:
            found = tree.digest(_FILES + name)
        except OSError as error:
            wrong.append(f"{name} cannot be read: {error.strerror or error}")
            continue
        if found.bytes != digest.bytes:
            wrong.append(f"{name} has {found.bytes:,} bytes instead of {digest.bytes:,}")
        elif found != digest:
            wrong.append(f"{name} is damaged: its SHA-256 is not the one that was written")
    wrong += [f"{name} does not belong to the backup" for name in sorted(there - described.files.keys())]
    return Verification(described.batch, len(described.files), tuple(wrong), described)


def _described(tree: Tree) -> Backup:
    top = tree.folder("")
    if UNFINISHED in top.names():
        raise CheckpointError(f"the backup {tree.url} is not finished: delete it, and take another one")
    try:
        document: Any = json.loads(top.read(DESCRIPTION))
        if document.pop("sha256") != _sum_of(document):
            raise ValueError("its SHA-256 is not the one that was written")
        if document["format"] != FORMAT:
            raise CheckpointError(f"{tree.url} is a backup of a later version of Headrace (format {document['format']})")
        files = {str(name): Digest(int(size), str(sha256)) for name, (size, sha256) in document["files"].items()}
        if any(part in ("", ".", "..") for name in files for part in name.split("/")):
            raise ValueError("a name leads out of it")
        checkpoint, query = str(document["checkpoint"]), str(document["query"])
        return Backup(checkpoint, query, int(document["batch"]), document["located"] is True, files)
    except FileNotFoundError:
        raise CheckpointError(f"{tree.url} is not a backup: it has no {DESCRIPTION}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{tree.url}/{DESCRIPTION} is damaged ({error}); use another backup") from None


def _sum_of(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _begin(target: Tree) -> None:
    """Creates a folder, and marks it as incomplete, so that no query starts on it."""
    if target.exists():
        raise CheckpointError(f"{target.url} exists; name a new folder")
    try:
        target.folder("").write(UNFINISHED, "")
    except FileExistsError:
        raise CheckpointError(f"{target.url} is being written by another process") from None


def _torn(backup: Tree, target: Tree, what: str) -> CheckpointError:
    return CheckpointError(f"the backup {backup.url} is not whole: {what}. Delete {target.url}, and use another backup")


def _tree(path: str, spark: SparkSession | None) -> Any:
    # Both trees of a copy are of the same kind.
    return LocalTree(Path(path.removeprefix("file:"))) if spark is None else HadoopTree(spark, path)
