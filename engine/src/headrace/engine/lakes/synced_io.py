"""Files of an Iceberg table that survive a power loss before its catalog names them."""

from pathlib import Path
from types import TracebackType
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from headrace.engine.checkpoint.local_disk import sync_file, sync_folder


class SyncedFileIO(PyArrowFileIO):
    """Writes the files of pyiceberg, and syncs each file on a disk when it is closed."""

    def new_output(self, location: str) -> PyArrowFile:
        """A file that will be written."""
        scheme, host, path = self.parse_location(location, self.properties)
        kind = _SyncedFile if scheme == "file" else PyArrowFile
        return kind(location, path, self.fs_by_scheme(scheme, host))


class _SyncedFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> "_SyncedStream":
        """Begins the file."""
        return _SyncedStream(super().create(overwrite), Path(self._path))


class _SyncedStream:
    """A stream to a file, which it syncs when it is closed."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream = stream
        self._path = path

    def write(self, data: bytes) -> int:
        written: int = self._stream.write(data)
        return written

    def tell(self) -> int:
        at: int = self._stream.tell()
        return at

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)

    def close(self) -> None:
        self._stream.close()
        sync_file(self._path)
        sync_folder(self._path.parent)

    def __enter__(self) -> "_SyncedStream":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
