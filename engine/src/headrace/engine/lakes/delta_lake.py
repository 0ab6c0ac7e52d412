"""A Delta table, on a disk or on S3: its log shows a micro-batch, with the mark that makes a repeat harmless.

Tasks write below `_headrace/staged`. The driver moves the files that count into the table's folder, where they are not part of
the table yet, and adds them to its log in one commit. The app transaction `(query, batch)` of that commit is the mark.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.lakes.names import BATCH_FOLDER
from headrace.engine.lakes.objects import INSTALL, ObjectStaging, readable, reason_of
from headrace.engine.lakes.staging import DiskStaging, Staging
from headrace.pipelines.runtime import is_on_s3, values_of

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


class DeltaLake:
    """One table.

    Args:
        path: Its folder, or its place on S3.
        sync: Whether the files that it shows survive a power loss.
    """

    def __init__(self, path: str, *, sync: bool = False) -> None:
        self._path = path
        self.staging = staging_at(path, sync=sync)

    def sweep(self, query: str, batch: int, run: int) -> int:
        """See `Staging`."""
        return self.staging.sweep(query, batch, run)

    def last_visible(self, query: str) -> int:
        """The last micro-batch of a query in the log; -1 if there is none."""
        table = self._table()
        return -1 if table is None else _mark_in(table, query)

    def prepare(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        """Creates the table, or adds the columns that it lacks. See `Table`."""
        delta = _deltalake()
        reason = ""
        for _ in range(MAX_ATTEMPTS):
            try:
                table = self._table()
                if table is not None:
                    self._check(table, partition_by)
                    self._add_columns(table, schema)
                    return
                if any(name.startswith(BATCH_FOLDER) for name in self.staging.make_table()):
                    raise LakeError(
                        f"lake {self._path} has files of format='parquet', which Delta does not read: use another folder"
                    )
                with readable():
                    columns, by = _delta_schema(schema), list(partition_by)
                    delta.DeltaTable.create(self._path, schema=columns, partition_by=by, mode="ignore")
            except delta.exceptions.CommitFailedError as error:
                reason = reason_of(error)  # Another writer was faster: read the table again.
            except delta.exceptions.DeltaError as error:
                raise LakeError(f"lake {self._path}: its columns cannot be prepared: {reason_of(error)}") from error
        raise LakeError(
            f"lake {self._path}: its columns cannot be prepared, since other writers change it: {reason}; start again"
        )

    def show(self, batch: LakeBatch) -> bool:
        """Adds the files of a committed micro-batch to the log; False if they were added before. See `Table`."""
        delta = _deltalake()
        self.staging.check_table(batch)
        partition_by = list(values_of(batch.files[0].folder))
        reason = ""
        for _ in range(MAX_ATTEMPTS):
            table = self._table()
            if table is None:
                raise LakeError(f"lake {self._path} no longer has a log of Delta; {_RESTORE}")
            if _mark_in(table, batch.query) >= batch.batch:
                self.staging.check_none_left(batch)
                self.staging.keep_log(0)  # Another driver may have died before it did so.
                return False
            self._check(table, partition_by)
            mark = delta.Transaction(_application(batch.query), batch.batch)
            properties = delta.CommitProperties(app_transactions=[mark])
            try:
                schema = self.staging.columns_of(batch.files[0].name)
                if schema is not None and self._add_columns(table, schema, partition_by):
                    continue  # Somebody has replaced the table's columns since the start.
                actions = [self._added(file, batch) for file in batch.files]
                with readable():
                    table.create_write_transaction(actions, "append", table.schema(), partition_by, commit_properties=properties)
                self.staging.keep_log(table.version())
                return True
            except delta.exceptions.CommitFailedError as error:
                reason = reason_of(error)  # Another writer was faster, perhaps with this micro-batch: read the table again.
            except delta.exceptions.DeltaError as error:
                raise LakeError(
                    f"lake {self._path}: micro-batch {batch.batch} cannot be added to its log: {reason_of(error)}"
                ) from error
        raise LakeError(
            f"lake {self._path}: micro-batch {batch.batch} is committed, and other writers were faster {MAX_ATTEMPTS} times: "
            f"{reason}. Nothing is lost: the next start adds it"
        )

    def _table(self) -> "DeltaTable | None":
        delta = _deltalake()
        try:
            with readable():
                return delta.DeltaTable(self._path) if delta.DeltaTable.is_deltatable(self._path) else None
        except delta.exceptions.DeltaError as error:
            raise LakeError(f"lake {self._path}: its log cannot be read: {reason_of(error)}") from error

    def _add_columns(self, table: "DeltaTable", schema: pa.Schema, partition_by: Sequence[str] = ()) -> bool:
        """Adds the columns that the table lacks; False if it lacks none. Files do not have the ones that divide it."""
        missing = self._missing(table, schema, partition_by)
        if missing:
            table.alter.add_columns([_delta_schema(schema).fields[schema.get_field_index(name)] for name in missing])
        return bool(missing)

    def _added(self, file: LakeFile, batch: LakeBatch) -> Any:
        found = self.staging.add(file.name)
        if found is None or found.bytes != file.bytes:
            where = f"lake {self._path}: micro-batch {batch.batch} of query {batch.query}"
            raise LakeError(f"{where} is committed, and its file {file.name} is gone or damaged; {_RESTORE}")
        statistics, values = json.dumps({"numRecords": file.rows}), values_of(file.folder)
        return _deltalake().transaction.AddAction(file.name, file.bytes, values, found.modified_ms, True, statistics)

    def _check(self, table: "DeltaTable", partition_by: Sequence[str]) -> None:
        """Checks that files can be appended to the table as tasks write them.

        Raises:
            LakeError: They cannot.
        """
        metadata = table.metadata()
        if metadata.partition_columns != list(partition_by):
            there, here = (", ".join(each) or "nothing" for each in (metadata.partition_columns, partition_by))
            raise LakeError(
                f"lake {self._path} is partitioned by {there}, and partition_by of the application by {here}: make them "
                "equal, or use another table"
            )
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

    def _missing(self, table: "DeltaTable", schema: pa.Schema, partition_by: Sequence[str]) -> list[str]:
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
            if key not in wanted and not other.nullable and other.name not in partition_by:
                raise LakeError(f"lake {self._path}: its column {other.name} permits no null, and the schema has no such field")
        return [field.name for key, field in wanted.items() if key not in present]


def staging_at(path: str, *, sync: bool) -> Staging:
    """The staged files of the table at a place."""
    return ObjectStaging(path) if is_on_s3(path) else DiskStaging(Path(path), sync=sync)


def _mark_in(table: "DeltaTable", query: str) -> int:
    version = table.transaction_version(_application(query))
    return -1 if version is None else version


def _application(query: str) -> str:
    return f"headrace-{query}"


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
