"""Copies parts of a checkpoint into a new one, on any file systems that Spark supports."""

import shutil
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.folder import create_whole, qualified
from headrace.engine.checkpoint.state_files import is_local, local_path


class CheckpointCopy:
    """Writes a new checkpoint next to an old one, which it only reads.

    Args:
        spark: A session.
        old: The folder of the old checkpoint.
        new: The folder of the new one.
    """

    def __init__(self, spark: SparkSession, old: str, new: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._old, self._new = qualified(spark, old), qualified(spark, new)
        self._reading = self._path(self._old).getFileSystem(self._configuration)
        self._writing = self._path(self._new).getFileSystem(self._configuration)
        manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
        self._manager = manager.create(self._path(self._new), self._configuration)

    def copy(self, name: str) -> bool:
        """Copies a file or a folder with everything in it; returns whether it exists."""
        source = self._path(f"{self._old}/{name}")
        if not self._reading.exists(source):
            return False
        copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
        target = self._path(f"{self._new}/{name}")
        if not copy(self._reading, source, self._writing, target, False, True, self._configuration):
            raise CheckpointError(f"{self._old}/{name} cannot be copied to {self._new}: check rights and space")
        return True

    def copy_states(self, name: str) -> None:
        """Copies a file of states; a local one without Hadoop's checksums, as it was written."""
        if not (is_local(self._old) and is_local(self._new)):
            self.copy(name)
            return
        target = local_path(self._new) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(local_path(self._old) / name, target)

    def read(self, name: str) -> str:
        """The text of a file of the old checkpoint."""
        stream = self._reading.open(self._path(f"{self._old}/{name}"))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def has(self, name: str) -> bool:
        """Whether the old checkpoint has a file or a folder."""
        return bool(self._reading.exists(self._path(f"{self._old}/{name}")))

    def names(self, folder: str) -> list[str]:
        """The names in a folder of the old checkpoint; none if it does not exist."""
        if not self.has(folder):
            return []
        return [status.getPath().getName() for status in self._reading.listStatus(self._path(f"{self._old}/{folder}"))]

    def write(self, name: str, text: str) -> None:
        """Writes a file of the new checkpoint, whole or not at all."""
        path = self._path(f"{self._new}/{name}")
        self._manager.mkdirs(path.getParent())
        create_whole(self._manager, path, text)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(name)
