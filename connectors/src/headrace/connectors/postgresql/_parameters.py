"""The parameters of the PostgreSQL connectors."""

from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr, field_validator

from headrace.configuration import Duration
from headrace.connectors._parameters import Parameters
from headrace.connectors.bad_records import BadRecordParameters
from headrace.contract.names import NAME

_NAMES = f"^{NAME}$"


class PostgreSQLConnection(Parameters):
    """How to reach a database."""

    url: SecretStr = Field(
        description="postgresql://USER:PASSWORD@HOST:PORT/DATABASE, as libpq takes it; for TLS add "
        "?sslmode=verify-full&sslrootcert=FILE.",
        examples=["postgresql://headrace@127.0.0.1/postgres"],
    )
    password: SecretStr | None = Field(None, description="The password, if the URL has none.")
    timeout_seconds: Duration = Field(
        30.0,
        ge=1,
        description="How long a statement may take; then it is retried on a new connection.",
    )

    @field_validator("url")
    @classmethod
    def _can_be_read(cls, url: SecretStr) -> SecretStr:
        """Checks that libpq can parse it. The error of libpq itself would show the password."""
        try:
            conninfo_to_dict(url.get_secret_value())
        except psycopg.Error:
            raise ValueError("libpq cannot parse it; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE") from None
        return url


class PostgreSQLRows(PostgreSQLConnection):
    """The parameters that both sources share."""

    table: str = Field(description="The table as in SQL: with its schema, unless that is in the search path.")
    source: str = Field(pattern=_NAMES, description="Streams are named SOURCE/<partition>.")
    sequence_column: str = Field("id", description="The integer column that the server fills when a row is inserted.")
    key_column: str | None = Field(None, description="The column for the message key, of any type.")
    headers_column: str | None = Field(None, description="The column for the headers, json or jsonb: an object with text values.")
    event_time_column: str | None = Field(None, description="The column for the event time: a timestamp or a date.")
    hold_back: Literal["writers", "transactions"] = Field(
        "writers",
        description="Whom to wait for at a missing number: writers of the table, if the INSERT generates it; or all "
        "transactions of the database, if a program may generate it earlier.",
    )
    accept_changes: tuple[str, ...] = Field(
        (),
        description="Codes of changes of the table to accept. Rows that are read again then differ from what was sent.",
    )


class PostgreSQLParameters(PostgreSQLRows, BadRecordParameters):
    """Stream the rows of a table by an increasing number. No row is read twice, and no row is skipped.

    Only insert rows. A row that is updated is not read again, and a row that is deleted before it was read is missed.
    """

    table: str = Field(
        description="The table as in SQL: with its schema, unless that is in the search path.", examples=["orders"]
    )
    source: str = Field(pattern=_NAMES, description="The stream is named SOURCE/0.", examples=["orders"])
    value_column: str | None = Field(
        None, description="The column that is the value, unchanged; default: a JSON object of columns."
    )
    columns: tuple[str, ...] = Field((), description="The columns of that object; default: all of them.")
    where: str | None = Field(None, description="An SQL condition; rows that do not satisfy it are skipped.")
    poll_seconds: Duration = Field(0.1, gt=0, description="Interval between checks for new rows.")
    detect_deleted: bool = Field(
        False,
        description="Report the position as lost if no row at or before it is left: for tables whose old rows are deleted, but"
        " never the last one that was read.",
    )


class PostgreSQLOutboxParameters(PostgreSQLRows, BadRecordParameters):
    """Stream the rows of an outbox table as soon as they are committed, and delete them once they are acknowledged.

    The connector listens on a channel that a trigger of the table notifies, and also polls periodically.
    """

    table: str = Field(
        "outbox",
        description="The table as in SQL: with its schema, unless that is in the search path.",
        examples=["outbox"],
    )
    source: str = Field(
        pattern=_NAMES, description="Streams are named SOURCE/<partition>, and SOURCE/0 without partitions.", examples=["outbox"]
    )
    value_column: str = Field("value", description="The column that is the value, unchanged.")
    partition_column: str | None = Field(
        None, description="The column whose values are partitions, each a stream; an index must begin with it."
    )
    channel: str = Field("headrace_outbox", description="The channel to listen on.")
    poll_seconds: Duration = Field(1.0, gt=0, description="Interval between checks without a notification.")
    acknowledged_rows: Literal["delete", "keep"] = Field("delete", description="What to do with rows once they are acknowledged.")


class PostgreSQLTarget(PostgreSQLConnection):
    """The parameters that both sinks share."""

    table: str = Field(
        description="The table as in SQL: with its schema, unless that is in the search path.", examples=["alerts"]
    )
    sink: str = Field(
        pattern=_NAMES, description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"]
    )
    owner: str = Field(
        "0",
        pattern=_NAMES,
        max_length=64,
        description="Names the connector's own data: different for each instance of a sink, the same after each restart.",
    )
    columns: tuple[str, ...] = Field(
        (),
        description="The columns to fill from the members of the value. Default: all without a default, unless "
        "value_column is set.",
    )
    value_column: str | None = Field(None, description="The column for the value, unchanged.")
    event_time_column: str | None = Field(None, description="The column for the event time.")
    message_id_column: str | None = Field(None, description="The column for the message id.")
    headers_column: str | None = Field(None, description="The column for the headers, as a JSON list of names and values.")


class PostgreSQLSinkParameters(PostgreSQLTarget):
    """Insert messages into a table, exactly once: all rows of a batch become visible together, when it is committed.

    The sink votes with PREPARE TRANSACTION, so the server needs max_prepared_transactions. Messages that the table rejects become
    dead letters.
    """

    key_column: str | None = Field(None, description="The column for the message key.")
    on_conflict: Literal["refuse", "skip"] = Field(
        "refuse",
        description="What to do with a row that violates a unique constraint; skip is silent.",
    )


class PostgreSQLUpsertParameters(PostgreSQLTarget):
    """Keep the last message of each key in a table, exactly once: rows are inserted, updated, or, for a null value, deleted.

    Each batch is written in one transaction, together with its id.
    """

    owner: str = Field(
        "0",
        pattern=_NAMES,
        max_length=64,
        description="Names the stored numbers of batches: the same for all instances of a sink, and after each restart.",
    )
    key_columns: tuple[str, ...] = Field(
        min_length=1,
        description="The columns of a unique constraint or index that identify a row.",
        examples=["customer"],
    )
    key: Literal["message", "value"] = Field(
        "message",
        description="What fills the key columns: the message key, a JSON object if there are several; or members of the value.",
    )
