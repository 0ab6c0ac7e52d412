"""A Delta table on a disk: its log shows a micro-batch, with the mark that makes a repeat harmless.

Tasks write below `_headrace/staged`. The driver moves the files that count into the table's folder, where they are not part of
the table yet, and adds them to its log in one commit. The app transaction `(query, batch)` of that commit is the mark.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.checkpoint.local_disk import sync_file
from headrace.engine.lakes.names import BATCH_FOLDER
from headrace.engine.lakes.staging import Staging, names_in, synced

if TYPE_CHECKING:
    from deltalake import DeltaTable

_RESTORE = "restore the table and the checkpoint from the same backup"
MAX_ATTEMPTS = 20
"""How often a commit is tried while other writers change the table."""
_MORE_THAN_APPEND = ("delta.constraints.", "delta.columnMapping.mode", "delta.feature.columnMapping")
_FORGETS = "delta.setTransactionRetentionDuration"
_COLUMN_RULES = ("delta.generationExpression", "delta.invariants", "delta.identity.")
_FEATURES = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "timestampNtz", "deletionVectors"}
)
"""The features of tables that deltalake can write, most of which only matter to writers that do more than append."""
_LAST_WRITER, _WRITER_WITH_FEATURES = 4, 7
INSTALL = "format='delta' needs deltalake on the driver: pip install 'headrace-engine[lake]'"


class DeltaLake:
    """One table.

    Args:
        path: Its folder.
        sync: Whether the files that it shows survive a power loss.
    """

    def __init__(self, path: str, *, sync: bool = False) -> None:
        self._path = Path(path)
        self._staging = Staging(self._path, sync=sync)
        self._sync = sync

    def staged(self, name: str) -> Path:
        """Where a task writes a file."""
        return self._staging.place(name)

    def sweep(self, query: str, batch: int, run: int) -> int:
        """See `Staging`."""
        return self._staging.sweep(query, batch, run)

    def last_visible(self, query: str) -> int:
        """The last micro-batch of a query in the log; -1 if there is none."""
        table = self._table()
        return -1 if table is None else _mark_in(table, query)

    def prepare(self, schema: pa.Schema) -> None:
        """Creates the table, or adds the columns that it lacks. See `Table`."""
        delta = _deltalake()
        reason = ""
        for _ in range(MAX_ATTEMPTS):
            try:
                table = self._table()
                if table is not None:
                    self._check(table)
                    self._add_columns(table, schema)
                    return
                if any(name.startswith(BATCH_FOLDER) for name in names_in(self._path)):
                    raise LakeError(
                        f"lake {self._path} has files of format='parquet', which Delta does not read: use another folder"
                    )
                self._path.mkdir(parents=True, exist_ok=True)
                delta.DeltaTable.create(str(self._path), schema=_delta_schema(schema), mode="ignore")
            except delta.exceptions.CommitFailedError as error:
                reason = _first_line(error)  # Another writer was faster: read the table again.
            except delta.exceptions.DeltaError as error:
                raise LakeError(f"lake {self._path}: its columns cannot be prepared: {_first_line(error)}") from error
        raise LakeError(
            f"lake {self._path}: its columns cannot be prepared, since other writers change it: {reason}; start again"
        )

    def show(self, batch: LakeBatch) -> bool:
        """Adds the files of a committed micro-batch to the log; False if they were added before. See `Table`."""
        delta = _deltalake()
        self._staging.check_table(batch)
        reason = ""
        for _ in range(MAX_ATTEMPTS):
            table = self._table()
            if table is None:
                raise LakeError(f"lake {self._path} no longer has a log of Delta; {_RESTORE}")
            if _mark_in(table, batch.query) >= batch.batch:
                self._staging.check_none_left(batch)
                self._sync_log(0)  # Another driver may have died before it did so.
                return False
            self._check(table)
            mark = delta.Transaction(_application(batch.query), batch.batch)
            properties = delta.CommitProperties(app_transactions=[mark])
            try:
                if (schema := self._written_as(batch)) is not None and self._add_columns(table, schema):
                    continue  # Somebody has replaced the table's columns since the start.
                actions = [self._added(name, size, rows, batch) for name, size, rows in _fields(batch)]
                table.create_write_transaction(actions, "append", table.schema(), [], commit_properties=properties)
                self._sync_log(table.version())
                return True
            except delta.exceptions.CommitFailedError as error:
                reason = _first_line(error)  # Another writer was faster, perhaps with this micro-batch: read the table again.
            except delta.exceptions.DeltaError as error:
                raise LakeError(
                    f"lake {self._path}: micro-batch {batch.batch} cannot be added to its log: {_first_line(error)}"
                ) from error
        raise LakeError(
            f"lake {self._path}: micro-batch {batch.batch} is committed, and other writers were faster {MAX_ATTEMPTS} times: "
            f"{reason}. Nothing is lost: the next start adds it"
        )

    def _table(self) -> "DeltaTable | None":
        delta = _deltalake()
        try:
            return delta.DeltaTable(str(self._path)) if delta.DeltaTable.is_deltatable(str(self._path)) else None
        except delta.exceptions.DeltaError as error:
            raise LakeError(f"lake {self._path}: its log cannot be read: {_first_line(error)}") from error

    def _written_as(self, batch: LakeBatch) -> pa.Schema | None:
        """The columns that the tasks of a micro-batch have written; None if its first file is gone or damaged."""
        import pyarrow.parquet as pq

        for folder in self._staging.folder, self._path:
            with suppress(FileNotFoundError, pa.ArrowInvalid):
                found: pa.Schema = pq.read_schema(folder / batch.files[0].name)
                return found
        return None

    def _sync_log(self, version: int) -> None:
        """Has the entries of the log from a version on survive a power loss, which deltalake does not do."""
        if not self._sync:
            return
        log = self._path / "_delta_log"
        for name in names_in(log):
            if name.endswith(".json") and name >= f"{version:020}":
                with suppress(FileNotFoundError):  # Another writer has deleted it, since a checkpoint of the log contains it.
                    sync_file(log / name)
        synced(log)

    def _add_columns(self, table: "DeltaTable", schema: pa.Schema) -> bool:
        """Adds the columns that the table lacks; False if it lacks none."""
        missing = self._missing(table, schema)
        if missing:
            table.alter.add_columns([_delta_schema(schema).fields[schema.get_field_index(name)] for name in missing])
        return bool(missing)

    def _added(self, name: str, size: int, rows: int, batch: LakeBatch) -> Any:
        self._staging.move(name, self._path)
        file = self._path / name
        if not file.exists() or file.stat().st_size != size:
            where = f"lake {self._path}: micro-batch {batch.batch} of query {batch.query}"
            raise LakeError(f"{where} is committed, and its file {name} is gone or damaged; {_RESTORE}")
        if self._sync:
            synced(self._path)
        modified = int(file.stat().st_mtime * 1000)
        return _deltalake().transaction.AddAction(name, size, {}, modified, True, json.dumps({"numRecords": rows}))

    def _check(self, table: "DeltaTable") -> None:
        """Checks that files can be appended to the table as tasks write them.

        Raises:
            LakeError: They cannot.
        """
        metadata = table.metadata()
        if metadata.partition_columns:
            by = ", ".join(metadata.partition_columns)
            raise LakeError(f"lake {self._path} is partitioned by {by}: use a table without partitions")
        protocol = table.protocol()
        features = sorted(set(protocol.writer_features or ()) - _FEATURES)
        if features or _LAST_WRITER < protocol.min_writer_version < _WRITER_WITH_FEATURES:
            needs = f"the feature {features[0]}" if features else f"writers of version {protocol.min_writer_version}"
            raise LakeError(f"lake {self._path} needs {needs}, which lakes do not have: use another table")
        columns = table.schema().to_json()
        for rule in _COLUMN_RULES:
            if f'"{rule}' in columns:
                raise LakeError(
                    f"lake {self._path} has a column with the rule {rule}, which lakes do not obey: use another table"
                )
        for name, value in metadata.configuration.items():
            if name == _FORGETS:
                raise LakeError(
                    f"lake {self._path} has the property {name}={value}: its writers forget which micro-batches it has, so that "
                    "one may be added twice; remove the property, or use another table"
                )
            if name.startswith(_MORE_THAN_APPEND) and value != "none":
                raise LakeError(f"lake {self._path} has the property {name}={value}, which lakes do not obey: use another table")

    def _missing(self, table: "DeltaTable", schema: pa.Schema) -> list[str]:
        """The columns that the table lacks.

        Raises:
            LakeError: It has one of another type, or with a case of its own, or one that must not be null and is not written.
        """
        present = {field.name.lower(): field for field in table.schema().fields}
        wanted = {field.name.lower(): field for field in _delta_schema(schema).fields}
        for key, field in wanted.items():
            other = present.get(key)
            if other is not None and (other.name, other.type) != (field.name, field.type):
                raise LakeError(
                    f"lake {self._path} has the column {other.name} of type {other.type}, and the schema of the application "
                    f"{field.name} of type {field.type}: rename the field, or write to another table"
                )
            if other is not None and field.nullable and not other.nullable:
                raise LakeError(f"lake {self._path}: its column {other.name} permits no null, and the field may be None")
            if other is None and not field.nullable and table.version() > 0:
                raise LakeError(f"lake {self._path} lacks the column {field.name}: only a field that may be None can be added")
        for key, other in present.items():
            if key not in wanted and not other.nullable:
                raise LakeError(f"lake {self._path}: its column {other.name} permits no null, and the schema has no such field")
        return [field.name for key, field in wanted.items() if key not in present]


def _mark_in(table: "DeltaTable", query: str) -> int:
    version = table.transaction_version(_application(query))
    return -1 if version is None else version


def _application(query: str) -> str:
    return f"headrace-{query}"


def _first_line(error: Exception) -> str:
    """The first line of an error, which names no calls inside the library."""
    return str(error).strip().partition("\n")[0]


def _fields(batch: LakeBatch) -> list[tuple[str, int, int]]:
    return [(file.name, file.bytes, file.rows) for file in batch.files]


def _delta_schema(schema: pa.Schema) -> Any:
    return _deltalake().Schema.from_arrow(schema)


def _deltalake() -> Any:
    """The library, which only the driver needs.

    Raises:
        LakeError: It is not installed.
    """
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError:
        raise LakeError(INSTALL) from None
    return deltalake
