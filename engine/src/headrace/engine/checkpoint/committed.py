"""The last micro-batch in the commit log of a checkpoint, and its states, while the application may run on it.

`commits/N` decides: the states of a micro-batch that is not committed are never part of it. A running application may delete
whatever is named here once it has committed further micro-batches: whoever reads it then begins again.
"""

import json
from dataclasses import dataclass

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.log import DROPPED, STEPS, UNFINISHED, Dropped, owner_named_in
from headrace.engine.checkpoint.logged_batch import logged_batch
from headrace.engine.checkpoint.manifests import MANIFESTS, Manifest, ManifestLog
from headrace.engine.checkpoint.position import Offset
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.checkpoint.trees import Tree

ROUNDS = 50
"""How often reading begins again because the application has deleted what was to be read."""


@dataclass(frozen=True)
class Committed:
    """A checkpoint as of a micro-batch.

    Attributes:
        batch: The last committed micro-batch.
        partitions: The number of buckets.
        offsets: Where the micro-batch ends in each Headrace source.
        manifest: The states after it.
        dropped: The steps whose states were dropped.
        steps: The steps that keep states; None if they were not recorded.
    """

    batch: int
    partitions: int
    offsets: tuple[Offset, ...]
    manifest: Manifest
    dropped: frozenset[str]
    steps: frozenset[str] | None


def committed(tree: Tree) -> Committed:
    """The checkpoint of an application as of its last committed micro-batch.

    Raises:
        CheckpointError: It has none, is not an application's, or is damaged.
    """
    if UNFINISHED in tree.folder("").names():
        raise CheckpointError(f"{tree.url} is incomplete, since its creation did not finish; delete it, and create it again")
    for _ in range(ROUNDS):
        batch = _last(tree)
        try:
            return _committed(tree, batch)
        except (CheckpointError, FileNotFoundError) as error:
            if _last(tree) == batch:
                if isinstance(error, CheckpointError):
                    raise
                raise CheckpointError(f"{tree.url} is not whole: {error} is missing; restore it from a backup") from None
    raise too_fast(tree.url)


def too_fast(url: str) -> CheckpointError:
    """The error for states that the application has deleted before they were read."""
    return CheckpointError(
        f"{url} changes faster than it can be read: the application deletes old states before they are read. Set its "
        "spark.sql.streaming.minBatchesToRetain to a larger number, or stop it"
    )


def _committed(tree: Tree, batch: int) -> Committed:
    logged = logged_batch(batch, tree.folder("offsets").read(str(batch)), tree.url)
    names = tree.folder("").names()
    if not tree.folder(MANIFESTS).names() and STEPS not in names:
        raise CheckpointError(f"{tree.url} is not the checkpoint of an application: it has neither steps nor their states")
    owner = owner_named_in(tree.folder("commits").read(str(batch)))
    run = None if owner is None else RunLog(tree.folder(RUNS)).number_of(owner)
    manifest = ManifestLog(tree.folder(MANIFESTS)).after(batch, run)
    noted = json.loads(tree.folder("").read(DROPPED)) if DROPPED in names else []
    dropped = (Dropped(**each) for each in noted)
    return Committed(
        batch,
        logged.partitions,
        logged.offsets,
        manifest,
        frozenset(each.step for each in dropped if batch > each.after),
        _steps(tree, batch),
    )


def _steps(tree: Tree, batch: int) -> frozenset[str] | None:
    folder = tree.folder(STEPS)
    noted = [int(name) for name in folder.names() if name.isdecimal() and int(name) <= batch]
    return frozenset(json.loads(folder.read(str(max(noted))))) if noted else None


def _last(tree: Tree) -> int:
    found = [int(name) for name in tree.folder("commits").names() if name.isdecimal()]
    if not found:
        raise CheckpointError(f"{tree.url} has no committed micro-batch, and therefore no states; is it the right folder?")
    return max(found)
