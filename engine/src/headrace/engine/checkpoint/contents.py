"""What belongs to a checkpoint as of its last committed micro-batch, while a query may run on it.

A file of the commit log decides: what a micro-batch writes before `commits/N` is not part of a copy. Whatever is named here never
changes under its name, or may be newer than the rest without harm. A running query may delete any of it once it has committed
further micro-batches: whoever copies then begins again.
"""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.log import DROPPED, HISTORY, PREDECESSORS, SPARK_STATES, STEPS, UNFINISHED, owner_named_in
from headrace.engine.checkpoint.manifests import MANIFESTS, STATES, Manifest, ManifestLog, manifest_name
from headrace.engine.checkpoint.runs import RUNS, RunLog
from headrace.engine.checkpoint.trees import Tree
from headrace.engine.checkpoint.votes import VOTES

METADATA, OFFSETS, COMMITS, SOURCES = "metadata", "offsets", "commits", "sources"
_LOCATED = "transformWithState"
"""Spark records the location of the states of these operators."""
_VERSIONED = re.compile(r"([0-9]+)(?:_[^/]*)?\.(?:delta|snapshot|zip|changelog)")
"""Spark's states after micro-batch N, whose version is N + 1."""


@dataclass(frozen=True)
class Contents:
    """The contents of a copy of a checkpoint.

    Attributes:
        batch: The last committed micro-batch.
        query: The id of the query.
        located: Whether it contains its own location, so that it can be used nowhere else.
        lasting: Files that never change under their names, and may be large.
        others: Small files that must be there.
        older: Entries of Spark's logs that it may do without.
        states: The manifest of the states; None if there is none.
    """

    batch: int
    query: str
    located: bool
    lasting: tuple[str, ...]
    others: tuple[str, ...]
    older: tuple[str, ...]
    states: Manifest | None


def last_committed(tree: Tree) -> int:
    """The last committed micro-batch of a checkpoint.

    Raises:
        CheckpointError: There is none.
    """
    found = _numbers(tree, COMMITS)
    if not found:
        raise CheckpointError(f"{tree.url} has no committed micro-batch, and so nothing to copy; is it the right folder?")
    return max(found)


def contents(tree: Tree) -> Contents:
    """The contents of a copy of a checkpoint.

    Raises:
        CheckpointError: It is no checkpoint, is incomplete, or a file of it is damaged.
        FileNotFoundError: A file is missing, which a running query may have deleted meanwhile.
    """
    top = tree.folder("")
    if UNFINISHED in top.names():
        raise CheckpointError(f"{tree.url} is incomplete, since its creation did not finish; delete it, and create it again")
    batch = last_committed(tree)
    recent = [f"{OFFSETS}/{batch}", f"{COMMITS}/{batch}"]
    older: list[str] = []
    for log in (OFFSETS, COMMITS):
        for each in (each for each in _numbers(tree, log) if each < batch):
            # Spark reads the last two entries at a start.
            (recent if each == batch - 1 else older).append(f"{log}/{each}")
        if batch and f"{log}/{batch - 1}" not in recent and last_committed(tree) != batch:
            raise FileNotFoundError(f"{log}/{batch - 1}")
    for name in recent:
        _check_entry(tree, name)
    states: Manifest | None = None
    manifest: list[str] = []
    manifests = ManifestLog(tree.folder(MANIFESTS))
    operators = _operators(tree, batch)
    owner = owner_named_in(tree.folder(COMMITS).read(str(batch)))
    number = None if owner is None else RunLog(tree.folder(RUNS)).number_of(owner)
    run = manifests.valid_run(batch, number)
    if run is not None:
        states = _states(manifests, batch, number, run)
        manifest = [f"{MANIFESTS}/{manifest_name(batch, run)}"]
    steps = [f"{STEPS}/{each}" for each in _numbers(tree, STEPS) if each <= batch]
    if steps and states is None:
        raise FileNotFoundError(f"{MANIFESTS}/{batch}.*, the manifest of the states after micro-batch {batch}")
    names = top.names()
    others = [*recent, METADATA, *manifest, *steps, *tree.below(RUNS), *tree.below(SOURCES)]
    others += [name for name in (VOTES, DROPPED, HISTORY, PREDECESSORS) if name in names]
    lasting = [] if states is None else [f"{STATES}/{name}" for name in sorted(states.files)]
    located = any("/_metadata/" in name and _LOCATED.encode() in _whole(tree, name) for name in operators)
    return Contents(batch, _query(tree), located, (*lasting, *operators), tuple(dict.fromkeys(others)), tuple(older), states)


def check_states(tree: Tree, states: Manifest, below: str = "") -> list[str]:
    """The errors in the files of states that a manifest names, in sentences; nothing if they are whole.

    Args:
        tree: The checkpoint, or a folder that contains it.
        states: The manifest.
        below: The folder of the checkpoint in the tree, with a `/` at its end.
    """
    there = {name.removeprefix(f"{below}{STATES}/") for name in tree.below(f"{below}{STATES}")}
    wrong = [f"{STATES}/{name} is missing" for name in sorted(states.files - there)]
    for (level, bucket), entry in states.entries.items():
        if entry.file not in there:
            continue
        where = f"{STATES}/{entry.file}, the states of bucket {bucket} after {level} shuffles,"
        try:
            found = tree.part(f"{below}{STATES}/{entry.file}", entry.offset, entry.bytes)
        except FileNotFoundError:
            wrong.append(f"{where} is missing")
        except Exception as error:
            wrong.append(f"{where} cannot be read: {str(error).splitlines()[0]}")
        else:
            if zlib.crc32(found) != entry.checksum:
                wrong.append(f"{where} is damaged: {entry.bytes} bytes from byte {entry.offset} on differ from what was written")
    return wrong


def _states(manifests: ManifestLog, batch: int, number: int | None, run: int) -> Manifest | None:
    try:
        return manifests.read(batch, number)
    except CheckpointError:
        if manifests.valid_run(batch, number) != run:
            raise FileNotFoundError(f"{MANIFESTS}/{manifest_name(batch, run)}") from None
        raise


def _operators(tree: Tree, batch: int) -> list[str]:
    """The files of Spark's own states after a micro-batch, each after the files that refer to it.

    Spark deletes what the last versions do not refer to: whatever a file that was copied refers to was there when it was.
    """
    versioned, others = [], []
    for name in tree.below(SPARK_STATES):
        version = _VERSIONED.fullmatch(name.rpartition("/")[2])
        if version is None:
            others.append(name)
        elif int(version[1]) <= batch + 1:
            versioned.append(name)
    return [*versioned, *others]


def _check_entry(tree: Tree, name: str) -> None:
    folder, _, entry = name.rpartition("/")
    text = tree.folder(folder).read(entry)
    lines = text.splitlines()
    try:
        if len(lines) < 2 or not re.fullmatch("v[0-9]+", lines[0]):
            raise ValueError("it has no version")
        for line in lines[1:]:
            if line != "-":
                json.loads(line)
    except ValueError as error:
        raise CheckpointError(f"{tree.url}/{name} is not an entry of Spark's logs ({error}); restore the checkpoint") from None


def _query(tree: Tree) -> str:
    try:
        document: Any = json.loads(tree.folder("").read(METADATA))
        return str(document["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{tree.url}/{METADATA} is not in Spark's format ({error})") from None


def _whole(tree: Tree, name: str) -> bytes:
    return tree.part(name, 0, tree.digest(name).bytes)


def _numbers(tree: Tree, log: str) -> list[int]:
    return sorted(int(name) for name in tree.folder(log).names() if name.isdecimal())
