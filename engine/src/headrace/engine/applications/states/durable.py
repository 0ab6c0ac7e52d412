"""The states of one bucket in Spark's state store: a snapshot, and the changes since.

A micro-batch writes only the states that it changed, so its cost depends on the number of keys that it touched. For each byte of
changes, two bytes of the snapshot are rewritten, the oldest segment first. The changes that are needed in addition to the
snapshot therefore grow to about half its size, and no micro-batch rewrites the entire snapshot unless half of the states have
changed. The pieces that changes are stored in are merged from time to time, and the snapshot has a bounded number of segments. So
a micro-batch names a number of pieces that hardly grows with the states.

Each micro-batch stores a token, a hash of its changes and of the token before. A worker that has cached the bucket's states uses
them only if their token is the store's present one. If it is an older one that the store still lists, the worker applies the
changes since.

Two attempts at one micro-batch write the same bytes at the same places, in any worker: they depend only on the content of the
store and on the messages. The sizes of changes decide what is written where, equal values have equal bytes
(`headrace.pipelines.states.values`), and keys are in the order in which messages touched them, or in a fixed order. Format 1 of
Spark's state store requires this, since it may keep pieces of both attempts. Format 2 keeps attempts apart.

Changes and segments contain complete states, not differences, so applying them again in order is harmless.
"""

import pickle
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any

from headrace.engine.applications.states.keys import segments_of
from headrace.engine.applications.states.segments import TOKEN_BYTES, DirtyKeys, PackedStates, Snapshot, of_keys
from headrace.engine.applications.states.store import Head, Store, Stored, changes_since, keep_outside, read_head, write_head
from headrace.pipelines.runtime import Key, StateClass, States, dumps_plain, no_step

Changed = Mapping[str, Collection[Key]]
"""The keys whose states may have changed in a micro-batch, by step, in the order of their first change."""

FOLD_BYTES = 2**20
"""The snapshot is not rewritten until the changes have this size, in bytes."""
FOLD_RATIO = 2
"""The number of bytes of the snapshot that are rewritten for each byte of changes."""
LISTED = 256
"""The number of tokens that are listed. A worker that is further behind reads all states again."""
INLINE_BYTES = 16 * 2**10
"""Changes up to this total size, in bytes, are stored in the head, which saves a call for each micro-batch."""
WHOLE_KEYS = 1_000
"""From this number of states on, all are written if half have changed: the changes and the share of the snapshot cost as much."""


def load(
    store: Stored,
    head: Head,
    classes: Mapping[str, StateClass],
    dropped: Collection[str] = (),
    dirty: DirtyKeys | None = None,
) -> dict[str, States]:
    """All states of a bucket, except states of `dropped` steps.

    Raises:
        StateError: Stored states do not match the classes or the steps of the pipeline.
    """
    kept: dict[str, States] = {step: States() for step in classes}
    load_into(kept, store, head, classes, dropped, dirty)
    return kept


def load_into(
    states: Mapping[str, States],
    store: Stored,
    head: Head,
    classes: Mapping[str, StateClass],
    dropped: Collection[str] = (),
    dirty: DirtyKeys | None = None,
) -> None:
    """Reads all states of a bucket, except states of `dropped` steps, into `states`, which are empty.

    Raises:
        StateError: Stored states do not match the classes or the steps of the pipeline.
    """
    for segment in range(len(head.segments)):
        _apply(store.segments.read(segment), states, classes, dropped, None)
    catch_up(store, head, head.oldest, states, classes, dropped, dirty)


def find(store: Stored, head: Head, step: str, key: Key, state_class: StateClass) -> Any:
    """The state of one key in a step of a bucket; None if it has none. Reads one segment, and the changes since.

    Raises:
        StateError: The stored state does not match the class.
    """
    number, pieces = 0, list[bytes]()
    if head.segments:
        (place,) = segments_of([key], len(head.segments))
        number = head.segments[place].number
        pieces.append(store.segments.read(place))
    found: tuple[bytes, int] | None = None
    for piece in chain(pieces, changes_since(store, head, number)):
        document: dict[str, PackedStates] = pickle.loads(piece)
        keys, packed, gone = document.get(step, ([], b"", []))
        if key in gone:
            found = None
        if key in keys:
            found = packed, keys.index(key)
    if found is None:
        return None
    packed, index = found
    return state_class.unpack(packed)[index]


def catch_up(
    store: Stored,
    head: Head,
    number: int,
    states: Mapping[str, States],
    classes: Mapping[str, StateClass],
    dropped: Collection[str] = (),
    dirty: DirtyKeys | None = None,
) -> None:
    """Applies the changes after `number` to states, except states of `dropped` steps.

    Raises:
        StateError: Stored states do not match the classes or the steps of the pipeline.
    """
    for change in changes_since(store, head, number):
        _apply(change, states, classes, dropped, dirty)


def _apply(
    packed: bytes,
    bucket_states: Mapping[str, States],
    classes: Mapping[str, StateClass],
    dropped: Collection[str],
    dirty: DirtyKeys | None,
) -> None:
    document: dict[str, PackedStates] = pickle.loads(packed)
    for step, (keys, states, gone) in document.items():
        if step not in classes:
            if keys and step not in dropped:
                raise no_step(step)
            continue
        here = bucket_states[step]
        here.update(zip(keys, classes[step].unpack(states), strict=True))
        for key in gone:
            here.pop(key, None)
        here.renewed([*keys, *gone])
        if dirty is not None:
            dirty.note(step, keys)


def save(
    store: Store,
    head: Head,
    bucket_states: Mapping[str, States],
    dirty: DirtyKeys,
    changed: Changed,
    classes: Mapping[str, StateClass],
    beside: Mapping[str, Any],
) -> Head:
    """Writes the changed states, and returns the new head.

    Raises:
        StateError: A state cannot be stored.
    """
    after = replace(head, number=head.number + 1, beside=beside)
    snapshot = Snapshot(store, head.segments, bucket_states, dirty, classes, after.number)
    states = sum(map(len, bucket_states.values()))
    if states >= WHOLE_KEYS and 2 * sum(map(len, changed.values())) >= states:
        after = _write_all(store, after, snapshot, changed)
        content = snapshot.digest.digest()
    else:
        change = content = dumps_plain(
            {step: of_keys(bucket_states[step], changed[step], classes[step]) for step in classes if changed.get(step)}
        )
        for step, keys in changed.items():
            dirty.note(step, list(keys))
        after = _fold(store, _keep(store, after, change), snapshot, changed, len(change))
    after = _with_token(after, content)
    write_head(store, after)
    return after


def begin(store: Store, change: bytes, beside: Mapping[str, Any]) -> None:
    """Adds states from another checkpoint to a bucket, as a change."""
    head = read_head(store)
    head = _keep(store, replace(head, number=head.number + 1, beside=beside), change)
    write_head(store, _with_token(head, change))


def _with_token(head: Head, content: bytes) -> Head:
    """The head with a new token, a hash of what was written and of the token before."""
    token = blake2b(head.token, digest_size=TOKEN_BYTES)
    token.update(b"%d" % head.number)
    token.update(dumps_plain(head.beside))
    token.update(content)
    return replace(head, tokens=(*head.tokens[1 - LISTED :], token.digest()))


def _keep(store: Store, head: Head, change: bytes) -> Head:
    """Stores the changes of the last micro-batch, in the head if they fit."""
    inline = {**head.inline, head.number: change}
    if sum(map(len, inline.values())) <= INLINE_BYTES:
        return replace(head, inline=inline)
    return replace(keep_outside(store, head, inline), inline={})


def _fold(store: Store, head: Head, snapshot: Snapshot, changed: Changed, changed_bytes: int) -> Head:
    """Rewrites as much of the snapshot as is due after the last changes."""
    if head.change_bytes <= FOLD_BYTES:
        return head
    if not head.segments:
        return _write_all(store, head, snapshot, changed)
    owed = head.owed + FOLD_RATIO * changed_bytes - snapshot.split_where_full()
    for _ in head.segments:
        if owed <= 0:
            break
        owed -= snapshot.write_oldest()
    after = replace(head, segments=tuple(snapshot.segments), owed=owed)
    # Changes that are now in the snapshot are kept until the next time, for the caches of other workers.
    return _without_changes(store, after, head.oldest)


def _write_all(store: Store, head: Head, snapshot: Snapshot, changed: Changed) -> Head:
    snapshot.write_all(changed)
    return _without_changes(store, replace(head, segments=tuple(snapshot.segments), owed=0), head.number)


def _without_changes(store: Store, head: Head, floor: int) -> Head:
    """Drops the changes up to and including the number `floor`."""
    store.changes.drop([number for number in head.outside if number <= floor])
    return replace(
        head,
        inline={number: change for number, change in head.inline.items() if number > floor},
        outside={number: size for number, size in head.outside.items() if number > floor},
        floor=floor,
    )
