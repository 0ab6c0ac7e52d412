"""The files of a history: on a local disk, or in a store that Arrow reads."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyarrow import fs

from headrace.engine._errors import HistoryError

PARQUET, LINES, PACKED_LINES = "parquet", "lines", "packed lines"
_KINDS = {".parquet": PARQUET, ".jsonl": LINES, ".ndjson": LINES, ".json": LINES}
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a history.

    Attributes:
        path: Its path or URL.
        kind: PARQUET, LINES or PACKED_LINES.
        size: Its size in bytes, when it was listed.
    """

    path: str
    kind: str
    size: int

    def open(self) -> pa.NativeFile:
        """Opens it for random access.

        Raises:
            HistoryError: It cannot be opened, or has changed since it was listed.
        """
        try:
            store, inner = _store(self.path)
            opened = store.open_input_file(inner)
            size = opened.size()
        except OSError as error:
            raise HistoryError(f"history {self.path}: {error}; put the file back, which the checkpoint has listed") from None
        if size != self.size:
            raise HistoryError(
                f"history {self.path}: the file had {self.size} bytes when the checkpoint began, and now has {size}; put it back "
                "as it was, or begin with a new checkpoint"
            )
        return opened

    def text(self, begin: int, end: int) -> bytes:
        """The bytes of a file of lines from `begin` (inclusive) to `end` (exclusive), unpacked.

        Raises:
            HistoryError: As `open`, or the file is damaged.
        """
        with self.open() as opened:
            if self.kind == LINES:
                opened.seek(begin)
                return bytes(opened.read(end - begin))
            try:
                return gzip.decompress(opened.read())[begin:end]
            except (OSError, EOFError) as error:
                raise HistoryError(f"history {self.path}: {error}; replace the damaged file") from None


def files_at(path: str) -> list[File]:
    """The files at a path, in the order of their names.

    Raises:
        HistoryError: There are none, one is of an unknown kind, or they cannot be listed.
    """
    try:
        store, inner = _store(path)
        (found,) = store.get_file_info([inner])
        if found.type is fs.FileType.File:
            return [_file(path, found.size)]
        if found.type is fs.FileType.Directory:
            (log,) = store.get_file_info([f"{inner}/{_DELTA_LOG}"])
            files = list(_of_delta(path) if log.type is fs.FileType.Directory else _below(store, path, inner))
        else:
            files = []
    except OSError as error:
        raise HistoryError(f"history {path}: {error}") from None
    if not files:
        raise HistoryError(f"history {path}: there are no files of Parquet or JSON lines")
    return sorted(files, key=lambda file: file.path)


def _store(path: str) -> tuple[fs.FileSystem, str]:
    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    store, inner = fs.FileSystem.from_uri(path)
    return store, inner


def _below(store: fs.FileSystem, path: str, inner: str) -> Iterator[File]:
    """The files of a folder and the folders in it, without hidden ones."""
    for found in store.get_file_info(fs.FileSelector(inner, recursive=True)):
        relative = PurePosixPath(found.path).relative_to(inner)
        if found.type is fs.FileType.File and not any(name.startswith(("_", ".")) for name in relative.parts):
            base = path if "://" in path else inner
            yield _file(f"{base.rstrip('/')}/{relative}", found.size)


def _of_delta(path: str) -> Iterator[File]:
    """The files of the present version of a Delta table.

    Raises:
        HistoryError: The library for such tables is missing, or the table cannot be read.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise HistoryError(f"history {path}: it is a Delta table: install headrace-engine[lake]") from None
    try:
        table = DeltaTable(path)
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise HistoryError(f"history {path}: its deletion vectors cannot be read; write the table anew without them")
        uris = table.file_uris()
    except DeltaError as error:
        raise HistoryError(f"history {path}: {error}") from None
    for uri in uris:
        store, inner = _store(uri.removeprefix("file://"))
        (found,) = store.get_file_info([inner])
        yield File(uri.removeprefix("file://"), PARQUET, found.size)


def _file(path: str, size: int) -> File:
    name = PurePosixPath(path)
    packed = name.suffix == ".gz"
    kind = _KINDS.get(PurePosixPath(name.stem).suffix if packed else name.suffix)
    if kind is None or (packed and kind is PARQUET):
        raise HistoryError(
            f"history {path}: its name ends with none of {', '.join(_KINDS)}, nor with .jsonl.gz; name the files of messages only"
        )
    return File(path, PACKED_LINES if packed else kind, size)
