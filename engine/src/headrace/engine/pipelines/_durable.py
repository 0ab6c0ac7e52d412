"""The states of one bucket as Spark's state store keeps them: a snapshot, and the changes since.

What is written for a micro-batch is what changed in it, so that its cost is that of the keys that it touched. For each byte of
changes two bytes of the snapshot are written anew, the oldest segment first, so that the changes which are needed beside the
snapshot grow to about half its size, and no micro-batch ever writes everything, however much there is.

Each micro-batch leaves a token beside its changes, which follows from them and from the token before. A worker that holds the
bucket's states trusts them only if the token that the store has now is the one that it wrote; if the token is older and still
listed, it applies the changes since.

Two attempts at one micro-batch write the same bytes in the same places, whichever workers they run in: what is written follows
from what the store had and from the messages. What is written where goes by the sizes of changes, equal values have equal bytes
(`headrace.pipelines._values`), and keys are in the order in which messages touched them, or in an order of their own. Format 1 of
Spark's state store needs that, since it may keep pieces of both attempts; format 2 tells them apart.

Changes and segments hold whole states, never differences, so that applying them again in their order does no harm.
"""

import pickle
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from headrace.engine.pipelines._segments import TOKEN_BYTES, Packed, Recent, Snapshot, of_keys
from headrace.engine.pipelines._store import Head, Store, Stored, changes_since, keep_outside, read_head, write_head
from headrace.pipelines.runtime import Key, StateClass, States, dumps_plain, no_step

Changed = Mapping[str, Collection[Key]]
"""The keys whose states may have changed in a micro-batch, by step, in the order in which that happened first."""

FOLD_BYTES = 2**20
"""Until there are so many bytes of changes, the snapshot stays as it is."""
FOLD_RATIO = 2
"""How many bytes of the snapshot are written anew for each byte of changes."""
LISTED = 256
"""So many of the last micro-batches' tokens are listed. Who is further behind reads everything again."""
INLINE_BYTES = 16 * 2**10
"""Changes up to this size, all of them together, lie in the head itself, which saves a call for each micro-batch."""
WHOLE_KEYS = 1_000
"""From so many states on, all are written where half of them have changed: that is no more than their changes and their share."""


def load(
    store: Stored,
    head: Head,
    classes: Mapping[str, StateClass],
    dropped: Collection[str] = (),
    recent: Recent | None = None,
) -> dict[str, States]:
    """All states of a bucket.

    Raises:
        StateError: they do not fit the classes, or the steps, that the pipeline has now. Those of steps `dropped` are left out.
    """
    kept: dict[str, States] = {step: States() for step in classes}
    for segment in range(len(head.segments)):
        _apply(store.segments.read(segment), kept, classes, dropped, None)
    catch_up(store, head, head.oldest, kept, classes, dropped, recent)
    return kept


def catch_up(
    store: Stored,
    head: Head,
    number: int,
    kept: Mapping[str, States],
    classes: Mapping[str, StateClass],
    dropped: Collection[str] = (),
    recent: Recent | None = None,
) -> None:
    """Brings states up to date that have the changes up to a number.

    Raises:
        StateError: they do not fit the classes, or the steps, that the pipeline has now. Those of steps `dropped` are left out.
    """
    for change in changes_since(store, head, number):
        _apply(change, kept, classes, dropped, recent)


def _apply(
    packed: bytes,
    kept: Mapping[str, States],
    classes: Mapping[str, StateClass],
    dropped: Collection[str],
    recent: Recent | None,
) -> None:
    document: dict[str, Packed] = pickle.loads(packed)
    for step, (keys, states, gone) in document.items():
        if step not in classes:
            if keys and step not in dropped:
                raise no_step(step)
            continue
        here = kept[step]
        here.update(zip(keys, classes[step].unpack(states), strict=True))
        for key in gone:
            here.pop(key, None)
        if here.index is not None:
            here.news.update(keys)
            here.news.update(gone)
        if recent is not None:
            recent.note(step, keys)


def save(
    store: Store,
    head: Head,
    kept: Mapping[str, States],
    recent: Recent,
    changed: Changed,
    classes: Mapping[str, StateClass],
    beside: Mapping[str, Any],
) -> Head:
    """Writes what changed, and returns the head that the store has now.

    Raises:
        StateError: a state cannot be stored.
    """
    after = replace(head, number=head.number + 1, beside=beside)
    snapshot = Snapshot(store, head.segments, kept, recent, classes, after.number)
    states = sum(map(len, kept.values()))
    if states >= WHOLE_KEYS and 2 * sum(map(len, changed.values())) >= states:
        after = _write_all(store, after, snapshot, changed)
        content = snapshot.digest.digest()
    else:
        change = content = dumps_plain(
            {step: of_keys(kept[step], changed[step], classes[step]) for step in classes if changed.get(step)}
        )
        for step, keys in changed.items():
            recent.note(step, list(keys))
        after = _fold(store, _keep(store, after, change), snapshot, changed, len(change))
    after = _with_token(after, content)
    write_head(store, after)
    return after


def begin(store: Store, change: bytes, beside: Mapping[str, Any]) -> None:
    """Gives a bucket that is new states that were kept elsewhere, as a change."""
    head = read_head(store)
    head = _keep(store, replace(head, number=head.number + 1, beside=beside), change)
    write_head(store, _with_token(head, change))


def _with_token(head: Head, content: bytes) -> Head:
    """A head with a token that no other one has: it follows from what was written, and from the token before."""
    token = blake2b(head.token, digest_size=TOKEN_BYTES)
    token.update(b"%d" % head.number)
    token.update(dumps_plain(head.beside))
    token.update(content)
    return replace(head, tokens=(*head.tokens[1 - LISTED :], token.digest()))


def _keep(store: Store, head: Head, change: bytes) -> Head:
    """Keeps the changes of the last micro-batch, in the head if they fit."""
    inline = {**head.inline, head.number: change}
    if sum(map(len, inline.values())) <= INLINE_BYTES:
        return replace(head, inline=inline)
    last, size = keep_outside(store, inline)
    return replace(head, inline={}, outside={**head.outside, last: size})


def _fold(store: Store, head: Head, snapshot: Snapshot, changed: Changed, changed_bytes: int) -> Head:
    """Writes as much of the snapshot anew as changes have made due."""
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
    # Changes that the snapshot has now stay until the next time: they bring the copies of other workers up to date.
    return _without_changes(store, after, head.oldest)


def _write_all(store: Store, head: Head, snapshot: Snapshot, changed: Changed) -> Head:
    snapshot.write_all(changed)
    return _without_changes(store, replace(head, segments=tuple(snapshot.segments), owed=0), head.number)


def _without_changes(store: Store, head: Head, floor: int) -> Head:
    """Forgets changes up to a number."""
    store.changes.drop([number for number in head.outside if number <= floor])
    return replace(
        head,
        inline={number: change for number, change in head.inline.items() if number > floor},
        outside={number: size for number, size in head.outside.items() if number > floor},
        floor=floor,
    )
