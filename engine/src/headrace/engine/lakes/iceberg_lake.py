"""An Iceberg table on a disk or on S3: its catalog shows a micro-batch, with the mark that makes a repeat harmless.

Tasks write below `_headrace/staged`. The driver moves the files that count into `data`, and appends them in one commit of the
catalog. The mark is in the snapshot of that commit and in a property of the table, which stays when snapshots expire.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine._errors import LakeError
from headrace.engine.checkpoint.lake_batches import LakeBatch, LakeFile
from headrace.engine.iceberg_catalogs import open_catalog
from headrace.engine.lakes.columns import Column, missing
from headrace.engine.lakes.iceberg_files import data_file, plain
from headrace.engine.lakes.names import BATCH_FOLDER, digits_of
from headrace.engine.lakes.objects import reason_of
from headrace.engine.lakes.places import Place, staging_at
from headrace.pipelines.runtime import is_in_store, values_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

MAX_ATTEMPTS, MAX_UNKNOWN = 20, 3
"""How often a commit is tried while other writers change the table, or while the catalog does not tell what it has done."""
INSTALL = "format='iceberg' needs pyiceberg on the driver: pip install 'headrace-engine[iceberg]'"
_RESTORE = "restore the table, its catalog and the checkpoint from the same backup"
_NAMES = "schema.name-mapping.default"
RETRIES = "commit.retry.num-retries"
_MERGES = "commit.manifest-merge.enabled"
_NEW = {_MERGES: "true", "write.metadata.delete-after-commit.enabled": "true"}
"""The properties of a new table: many small commits neither lengthen its list of manifests nor leave a document each."""
LAST_VERSION = 2


class IcebergLake:
    """One table.

    Args:
        place: Where it is.
        sync: Whether what it shows survives a power loss.
    """

    def __init__(self, place: Place, *, sync: bool = False) -> None:
        self._path = place.path
        self._place = place
        self._sync = sync
        self.staging = staging_at(place, sync=sync)
        self._opened: Catalog | None = None

    def sweep(self, query: str, batch: int, run: int) -> int:
        """See `Staging`."""
        return self.staging.sweep(query, batch, run)

    def last_visible(self, query: str) -> int:
        """The last micro-batch of a query in the table; -1 if there is none."""
        with self._naming("its catalog cannot be read"):
            table = self._table()
        return -1 if table is None else _mark_in(table, query)

    def prepare(self, schema: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        """Creates the table, or adds the columns that it lacks. See `Table`."""
        attempts = _Attempts()
        for _ in range(MAX_ATTEMPTS):
            if not attempts.are_left:
                break
            try:
                with self._naming("its columns cannot be prepared"):
                    table = self._table()
                    if table is None:
                        self._create(schema, partition_by)
                        continue
                    self._check(table, partition_by)
                    self._add_columns(table, schema, partition_by)
                    return
            except _not_made() as error:
                attempts.note(error)  # Read the table again.
        raise LakeError(f"lake {self._path}: its columns cannot be prepared, since {attempts.reason}; start again")

    def show(self, batch: LakeBatch) -> bool:
        """Appends the files of a committed micro-batch; False if they were appended before. See `Table`."""
        self.staging.check_table(batch)
        partition_by = list(values_of(batch.files[0].folder))
        attempts = _Attempts()
        for _ in range(MAX_ATTEMPTS):
            if not attempts.are_left:
                break
            try:
                with self._naming(f"micro-batch {batch.batch} cannot be appended to it"):
                    table = self._table()
                    if table is None:
                        raise LakeError(f"lake {self._path}: its catalog no longer has the table {self._place.table}; {_RESTORE}")
                    if _mark_in(table, batch.query) >= batch.batch:
                        self.staging.check_none_left(batch)
                        return False
                    self._check(table, partition_by)
                    schema = self.staging.columns_of(batch.files[0].name)
                    if schema is not None and self._add_columns(table, schema, partition_by):
                        continue  # Somebody has replaced the table's columns since the start.
                    self._append(table, batch)
                    return True
            except _not_made() as error:
                attempts.note(error)  # Perhaps another driver has committed this micro-batch: read the table again.
        raise LakeError(
            f"lake {self._path}: micro-batch {batch.batch} is committed, and cannot be appended, since {attempts.reason}. "
            "Nothing is lost: the next start appends it"
        )

    def _append(self, table: "Table", batch: LakeBatch) -> None:
        """Commits the files and the mark, unless another writer has changed the table since it was read."""
        files = [self._added(table, file, batch) for file in batch.files]
        mark = {_mark_name(batch.query): str(batch.batch)}
        # Else pyiceberg repeats the append behind a faster commit, perhaps of this micro-batch. The table keeps its own property.
        table.metadata.properties[RETRIES] = "0"
        with table.transaction() as transaction:
            transaction.set_properties({**mark, **({} if table.name_mapping() else {_NAMES: _names_of(table)})})
            update = transaction.update_snapshot(snapshot_properties=mark)
            is_merged = table.properties.get(_MERGES, "").lower() == "true"
            with update.merge_append() if is_merged else update.fast_append() as append:
                for file in files:
                    append.append_data_file(file)

    def _added(self, table: "Table", file: LakeFile, batch: LakeBatch) -> Any:
        found = self.staging.add(file.name)
        footer = None if found is None or found.bytes != file.bytes else self.staging.footer_of(file.name)
        if footer is None:
            where = f"lake {self._path}: micro-batch {batch.batch} of query {batch.query}"
            raise LakeError(f"{where} is committed, and its file {file.name} is gone or damaged; {_RESTORE}")
        return data_file(table.metadata, file, f"{table.location()}/data/{file.name}", footer)

    def _create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        if any(name.startswith(BATCH_FOLDER) or name == "_delta_log" for name in self.staging.make_table()):
            raise LakeError(f"lake {self._path} has files of another format, which Iceberg does not read: use another folder")
        catalog, name = self._catalog(), self._name()
        try:
            catalog.create_namespace_if_not_exists(name[:-1])
        except Exception:
            if not catalog.namespace_exists(name[:-1]):  # Else somebody has made it who may.
                raise
        location = self._path if is_in_store(self._path) else f"file://{self._path}"
        with catalog.create_table_transaction(name, _plain_schema(schema), location, properties=_NEW) as transaction:
            with transaction.update_spec() as spec:
                for column in partition_by:
                    spec.add_identity(column)
            transaction.set_properties({_NAMES: transaction.table_metadata.schema().name_mapping.model_dump_json()})

    def _add_columns(self, table: "Table", schema: pa.Schema, partition_by: Sequence[str]) -> bool:
        """Adds the columns that the table lacks; False if it lacks none. Files do not have the ones that divide it."""
        present, wanted = (
            [Column(field.name, field.type, field.nullable) for field in _plain_schema(some)]
            for some in (table.schema().as_arrow(), schema)
        )
        added = missing(self._path, present, wanted, partition_by, may_require=False)
        if added:
            table.metadata.properties[RETRIES] = "0"
            with table.update_schema() as update:
                update.union_by_name(pa.schema([field for field in _plain_schema(schema) if field.name in added]))
        return bool(added)

    def _check(self, table: "Table", partition_by: Sequence[str]) -> None:
        """Checks that files can be appended to the table as tasks write them.

        Raises:
            LakeError: They cannot.
        """
        location = table.location()
        if _path_of(location) != self._path:
            raise LakeError(
                f"lake {self._path}: the table {self._place.table} is at {location}: make path that folder, or name another table"
            )
        if table.metadata.format_version > LAST_VERSION:
            raise LakeError(
                f"lake {self._path} has version {table.metadata.format_version} of Iceberg, and lakes write up to "
                f"{LAST_VERSION}: use another table"
            )
        by = [f"{field.transform}({table.schema().find_column_name(field.source_id)})" for field in table.spec().fields]
        if by != [f"identity({name})" for name in partition_by]:
            there, here = ", ".join(by) or "nothing", ", ".join(partition_by) or "nothing"
            raise LakeError(
                f"lake {self._path} is partitioned by {there}, and partition_by of the application by {here}: make them "
                "equal, or use another table"
            )

    def _table(self) -> "Table | None":
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog().load_table(self._name())
        except NoSuchTableError:
            return None

    def _name(self) -> tuple[str, ...]:
        return tuple(self._place.table.split(".")[1:])

    def _catalog(self) -> "Catalog":
        if not self._place.table:
            raise LakeError(
                f"lake {self._path}: the application no longer writes to it, so that its catalog is not known, and its last "
                "micro-batch may not be shown: start once with the lake, then without it"
            )
        if self._opened is None:
            is_synced = self._sync and not is_in_store(self._path)
            synced = {"py-io-impl": "headrace.engine.lakes.synced_io.SyncedFileIO"} if is_synced else {}
            self._opened = open_catalog(self._place.table.partition(".")[0], {**synced, **self._place.options})
        return self._opened

    @contextmanager
    def _naming(self, failed: str) -> Iterator[None]:
        """Has an error of the library or of its catalog name the table.

        Raises:
            LakeError: One of them failed.
        """
        kept: tuple[type[Exception], ...] = (LakeError, OSError, *_not_made())
        try:
            yield
        except kept:
            raise
        except Exception as error:  # A catalog raises what its server, its database or its client does.
            raise LakeError(f"lake {self._path}: {failed}: {type(error).__name__}: {reason_of(error)}") from error


def _path_of(location: str) -> str:
    """The path of a table, as an application names it."""
    if location.startswith("s3a://"):
        location = location.replace("s3a://", "s3://", 1)
    return location.removeprefix("file:").replace("///", "/", 1).rstrip("/")


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain(field.type), field.nullable) for field in schema])


def _names_of(table: "Table") -> str:
    return str(table.schema().name_mapping.model_dump_json())


def _mark_name(query: str) -> str:
    return f"headrace.{digits_of(query)}"


def _mark_in(table: "Table", query: str) -> int:
    name = _mark_name(query)
    summaries = [each.summary.additional_properties for each in table.snapshots() if each.summary is not None]
    return max((int(some[name]) for some in (table.properties, *summaries) if name in some), default=-1)


class _Attempts:
    """The attempts to commit, while other writers are faster, or the catalog does not tell what it has done."""

    def __init__(self) -> None:
        self._failed = self._unknown = 0
        self._error: Exception | None = None

    @property
    def are_left(self) -> bool:
        """Whether another attempt may succeed."""
        return self._failed < MAX_ATTEMPTS and self._unknown < MAX_UNKNOWN

    @property
    def reason(self) -> str:
        """Why none has succeeded."""
        what = "its catalog does not tell whether it has" if self._unknown == MAX_UNKNOWN else "other writers change it"
        return what if self._error is None else f"{what}: {reason_of(self._error)}"

    def note(self, error: Exception) -> None:
        """An attempt has failed."""
        from pyiceberg.exceptions import CommitStateUnknownException

        self._error = error
        self._failed += 1
        self._unknown += isinstance(error, CommitStateUnknownException)


def _not_made() -> tuple[type[Exception], ...]:
    """The errors of a commit that was not made, or of which that is not known: read the table again.

    Raises:
        LakeError: pyiceberg is not installed.
    """
    try:
        from pyiceberg import exceptions
    except ImportError:
        raise LakeError(INSTALL) from None
    return exceptions.CommitFailedException, exceptions.CommitStateUnknownException, exceptions.TableAlreadyExistsError
