"""What the PostgreSQL connectors can be told."""

from typing import Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr, field_validator

from headrace.connectors._bad_records import BadRecordParameters
from headrace.connectors._parameters import Parameters

_NAMES = r"^[A-Za-z0-9._-]+$"


class PostgreSQLConnection(Parameters):
    """How to reach a database."""

    url: SecretStr = Field(
        description="Where the database is, as libpq takes it: postgresql://USER:PASSWORD@HOST:PORT/DATABASE; for TLS add "
        "?sslmode=verify-full&sslrootcert=FILE.",
        examples=["postgresql://headrace@127.0.0.1/postgres"],
    )
    password: SecretStr | None = Field(None, description="The password, where the URL has none.")
    timeout_seconds: float = Field(
        30.0, ge=1, description="A statement that takes longer is given up, and tried again on a new connection."
    )

    @field_validator("url")
    @classmethod
    def _can_be_read(cls, url: SecretStr) -> SecretStr:
        """Sees that libpq can read it. Its own complaint would quote it."""
        try:
            conninfo_to_dict(url.get_secret_value())
        except psycopg.Error:
            raise ValueError("libpq cannot read it; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE") from None
        return url


class PostgreSQLRows(PostgreSQLConnection):
    """What both sources can be told about a table."""

    table: str = Field(description="The table, as SQL has it: with its schema unless that is in the search path.")
    source: str = Field(pattern=_NAMES, description="Streams are called SOURCE/<partition>.")
    sequence_column: str = Field(
        "id", description="The column, of an integer type, whose value the server draws for each row when it is inserted."
    )
    key_column: str | None = Field(None, description="The column that has the key of a message, of any type.")
    headers_column: str | None = Field(
        None, description="The column that has the headers of a message, of type json or jsonb: an object of texts."
    )
    event_time_column: str | None = Field(None, description="The column that has the event time: a timestamp, or a date.")
    hold_back: Literal["writers", "transactions"] = Field(
        "writers",
        description="What is waited for where numbers are missing: transactions that have written to the table, which is right "
        "where INSERT itself draws the number; or all transactions of the database, where one may also draw it earlier.",
    )


class PostgreSQLParameters(PostgreSQLRows, BadRecordParameters):
    """Stream the rows of a table by a number that increases; what was read is never read again, and no row is skipped.

    Rows are only to be inserted. One that is updated is not read again, and one that is deleted before it was read is not seen.
    """

    table: str = Field(
        description="The table, as SQL has it: with its schema unless that is in the search path.", examples=["orders"]
    )
    source: str = Field(pattern=_NAMES, description="The stream is called SOURCE/0.", examples=["orders"])
    value_column: str | None = Field(
        None, description="The column that is the value, as it is; where not given, the value is a JSON object of columns."
    )
    columns: tuple[str, ...] = Field((), description="The columns of that object; where not given, all of them.")
    where: str | None = Field(None, description="An SQL condition; rows for which it does not hold are left out.")
    poll_seconds: float = Field(0.1, gt=0, description="How often to look for new rows.")
    detect_deleted: bool = Field(
        False,
        description="Take the position for lost where the table has no row at or before it: for tables whose oldest rows are "
        "deleted, but never the last one that was read.",
    )


class PostgreSQLOutboxParameters(PostgreSQLRows, BadRecordParameters):
    """Stream the rows of an outbox table as soon as they are committed, and delete them once they are acknowledged.

    The connector listens on a channel that a trigger of the table notifies, and looks now and then in any case.
    """

    table: str = Field(
        "outbox", description="The table, as SQL has it: with its schema unless that is in the search path.", examples=["outbox"]
    )
    source: str = Field(
        pattern=_NAMES, description="Streams are called SOURCE/<partition>, and SOURCE/0 without partitions.", examples=["outbox"]
    )
    value_column: str = Field("value", description="The column that is the value, as it is.")
    partition_column: str | None = Field(
        None, description="The column whose values are the partitions, each a stream; an index must begin with it."
    )
    channel: str = Field("headrace_outbox", description="The channel to listen on.")
    poll_seconds: float = Field(1.0, gt=0, description="How often to look though nobody has notified.")
    acknowledged_rows: Literal["delete", "keep"] = Field("delete", description="What becomes of rows once they are acknowledged.")


class PostgreSQLTarget(PostgreSQLConnection):
    """What both sinks can be told."""

    table: str = Field(
        description="The table, as SQL has it: with its schema unless that is in the search path.", examples=["alerts"]
    )
    sink: str = Field(
        pattern=_NAMES, description='What Spark calls it: format("headrace").option("sink", SINK).', examples=["alerts"]
    )
    owner: str = Field(
        "0",
        pattern=_NAMES,
        max_length=64,
        description="Under which name the connector keeps what belongs to it: one for each of several instances of a sink, the "
        "same after each restart.",
    )
    columns: tuple[str, ...] = Field(
        (),
        description="The columns that are filled from the members of the value, a JSON object. Where not given: all that have no "
        "default, unless value_column is given.",
    )
    value_column: str | None = Field(None, description="The column that takes the value as it is.")
    event_time_column: str | None = Field(None, description="The column that takes the event time.")
    message_id_column: str | None = Field(None, description="The column that takes the message id.")
    headers_column: str | None = Field(None, description="The column that takes the headers, as a JSON list of names and values.")


class PostgreSQLSinkParameters(PostgreSQLTarget):
    """Insert messages into a table, exactly once: all rows of a batch become visible at once, when it is committed.

    It votes with PREPARE TRANSACTION, so the server needs max_prepared_transactions. Messages that the table refuses become dead
    letters.
    """

    key_column: str | None = Field(None, description="The column that takes the key of the message.")
    on_conflict: Literal["refuse", "skip"] = Field(
        "refuse",
        description="What becomes of a row that a unique constraint does not allow: it is refused, or left out without a word.",
    )


class PostgreSQLUpsertParameters(PostgreSQLTarget):
    """Keep the last message of each key in a table, exactly once: rows are inserted, updated, or deleted where there is no value.

    Each batch is written in one transaction, together with its id.
    """

    owner: str = Field(
        "0",
        pattern=_NAMES,
        max_length=64,
        description="Under which name the connector keeps the numbers of batches: the same for all instances of a sink, and "
        "after each restart.",
    )
    key_columns: tuple[str, ...] = Field(
        min_length=1,
        description="The columns of a unique constraint or index, by which rows are found.",
        examples=["customer"],
    )
    key: Literal["message", "value"] = Field(
        "message",
        description="What fills them: the key of the message, which is a JSON object where there are several columns; or members "
        "of the value.",
    )
