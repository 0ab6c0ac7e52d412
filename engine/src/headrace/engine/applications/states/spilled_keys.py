"""Keys of states as keys of rows in a file."""

import pickle
from collections.abc import Sequence

from headrace.engine.applications.states.keys import parts_of
from headrace.pipelines.runtime import Key, dumps_plain

_TEXT, _BYTES, _OTHER = b"s", b"b", b"p"
"""The kind of a key, after its part."""


def names_of(keys: Sequence[Key]) -> list[bytes]:
    """The names of rows for keys: the rows of one part are together."""
    return [bytes((part,)) + _spelled(key) for part, key in zip(parts_of(keys), keys, strict=True)]


def _spelled(key: Key) -> bytes:
    if isinstance(key, str):
        return _TEXT + key.encode()
    return _BYTES + key if isinstance(key, bytes) else _OTHER + dumps_plain(key)


def key_of(name: bytes) -> Key:
    """The key of a row."""
    kind = name[1:2]
    if kind == _TEXT:
        return name[2:].decode()
    found: Key = name[2:] if kind == _BYTES else pickle.loads(memoryview(name)[2:])
    return found
