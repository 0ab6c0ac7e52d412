"""A Delta table, on a disk, S3 or HDFS: its log shows a micro-batch, with the mark that makes a repeat harmless.

Tasks write below `_headrace/staged`. The driver moves the files that count into the table's folder, where they are not part of
the table yet, and adds them to its log in one commit. The app transaction `(query, batch)` of that commit is the mark.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.lakes.columns import Column, missing
from headrace.engine.lakes.names import BATCH_FOLDER
from headrace.engine.lakes.objects import INSTALL, readable, reason_of
from headrace.engine.lakes.places import Place, staging_at
from headrace.pipelines.runtime import values_of

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
        path: Its folder, or its place on S3 or HDFS.
        sync: Whether the files that it shows survive a power loss.
        options: Storage options of deltalake, beside the environment.
    """

    def __init__(self, path: str, *, sync: bool = False, options: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._options = dict(options or {})
        self.staging = staging_at(Place(path, "delta", options=self._options), sync=sync)

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
                    delta.DeltaTable.create(
                        self._path, schema=columns, partition_by=by, mode="ignore", storage_options=self._options
                    )
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
                exists = delta.DeltaTable.is_deltatable(self._path, storage_options=self._options)
                return delta.DeltaTable(self._path, storage_options=self._options) if exists else None
        except delta.exceptions.DeltaError as error:
            raise LakeError(f"lake {self._path}: its log cannot be read: {reason_of(error)}") from error

    def _add_columns(self, table: "DeltaTable", schema: pa.Schema, partition_by: Sequence[str] = ()) -> bool:
        """Adds the columns that the table lacks; False if it lacks none. Files do not have the ones that divide it."""
        added = self._missing(table, schema, partition_by)
        if added:
            table.alter.add_columns([_delta_schema(schema).fields[schema.get_field_index(name)] for name in added])
        return bool(added)

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
        present, wanted = (
            [Column(field.name, field.type, field.nullable) for field in some.fields]
            for some in (table.schema(), _delta_schema(schema))
        )
        return missing(self._path, present, wanted, partition_by, may_require=table.version() == 0)


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
