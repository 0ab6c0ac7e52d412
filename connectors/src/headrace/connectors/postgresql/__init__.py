"""PostgreSQL: sources of a table and of an outbox, and sinks that insert and that update, all exactly once."""

from headrace.connectors.postgresql._connectors import POSTGRESQL, POSTGRESQL_OUTBOX, POSTGRESQL_SINK, POSTGRESQL_UPSERT
from headrace.connectors.postgresql._outbox import PostgreSQLOutboxSource
from headrace.connectors.postgresql._parameters import (
    PostgreSQLConnection,
    PostgreSQLOutboxParameters,
    PostgreSQLParameters,
    PostgreSQLSinkParameters,
    PostgreSQLUpsertParameters,
)
from headrace.connectors.postgresql._sink import PostgreSQLSink
from headrace.connectors.postgresql._source import PostgreSQLSource
from headrace.connectors.postgresql._upsert import PostgreSQLUpsertSink

__all__ = [
    "POSTGRESQL",
    "POSTGRESQL_OUTBOX",
    "POSTGRESQL_SINK",
    "POSTGRESQL_UPSERT",
    "PostgreSQLConnection",
    "PostgreSQLOutboxParameters",
    "PostgreSQLOutboxSource",
    "PostgreSQLParameters",
    "PostgreSQLSink",
    "PostgreSQLSinkParameters",
    "PostgreSQLSource",
    "PostgreSQLUpsertParameters",
    "PostgreSQLUpsertSink",
]
