"""Lists the files of a history: of a folder, or of a table."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import unquote

from pyarrow import fs

from headrace.engine._errors import HistoryError
from headrace.engine.history.files import LINES, PACKED_LINES, PARQUET, File, Values, store_of
from headrace.engine.history.tables import ICEBERG, METADATA, of_delta, of_iceberg

_KINDS = {".parquet": PARQUET, ".jsonl": LINES, ".ndjson": LINES, ".json": LINES}
_DELTA_LOG, _ICEBERG_LOG = "_delta_log", "metadata"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_NO_COLUMN = "micro_batch"
"""The folders of micro-batches, which lakes of Parquet have, are no column of theirs."""


def files_at(path: str) -> list[File]:
    """The files at a path, in the order of their names.

    Raises:
        HistoryError: There are none, one is of an unknown kind, or they cannot be listed.
    """
    try:
        files = list(_files_at(path))
    except OSError as error:
        raise HistoryError(f"history {path}: {error}") from None
    if not files:
        raise HistoryError(f"history {path}: there are no files of Parquet or JSON lines")
    return sorted(files, key=lambda file: file.path)


def _files_at(path: str) -> Iterator[File]:
    if path.startswith(ICEBERG) or path.endswith(METADATA):
        yield from of_iceberg(path)
        return
    store, inner = store_of(path)
    (found,) = store.get_file_info([inner])
    if found.type is fs.FileType.File:
        yield _file(path, found.size)
    elif found.type is fs.FileType.Directory:
        delta, iceberg = store.get_file_info([f"{inner}/{_DELTA_LOG}", f"{inner}/{_ICEBERG_LOG}"])
        if delta.type is fs.FileType.Directory:
            yield from of_delta(path)
        elif iceberg.type is fs.FileType.Directory:
            raise HistoryError(
                f"history {path}: it is an Iceberg table, whose catalog knows its files: name it as "
                f"{ICEBERG}CATALOG.NAMESPACE.TABLE, or a file {_ICEBERG_LOG}/...{METADATA}"
            )
        else:
            yield from _below(store, path, inner)


def _below(store: fs.FileSystem, path: str, inner: str) -> Iterator[File]:
    """The files of a folder and the folders in it, without hidden ones."""
    for found in store.get_file_info(fs.FileSelector(inner, recursive=True)):
        relative = PurePosixPath(found.path).relative_to(inner)
        if found.type is fs.FileType.File and not any(name.startswith(("_", ".")) for name in relative.parts):
            base = path if "://" in path else inner
            yield _file(f"{base.rstrip('/')}/{relative}", found.size, _values_of(relative.parts[:-1]))


def _values_of(folders: tuple[str, ...]) -> Values:
    """The columns that folders such as `day=2026-11-29` name."""
    pairs = (folder.partition("=") for folder in folders if "=" in folder)
    named = ((unquote(name), None if text == _NO_VALUE else unquote(text)) for name, _, text in pairs)
    return tuple((name, value) for name, value in named if name != _NO_COLUMN)


def _file(path: str, size: int, values: Values = ()) -> File:
    name = PurePosixPath(path)
    packed = name.suffix == ".gz"
    kind = _KINDS.get(PurePosixPath(name.stem).suffix if packed else name.suffix)
    if kind is None or (packed and kind is PARQUET):
        raise HistoryError(
            f"history {path}: its name ends with none of {', '.join(_KINDS)}, nor with .jsonl.gz; name the files of messages only"
        )
    return File(path, PACKED_LINES if packed else kind, size, values if kind == PARQUET else ())
