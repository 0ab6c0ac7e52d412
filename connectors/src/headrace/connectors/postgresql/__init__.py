"""PostgreSQL: sources of a table and of an outbox, and sinks that insert and that update, all exactly once."""

import asyncio

from headrace.connectors._connector import Implementation
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


def _look_at_table(parameters: PostgreSQLParameters) -> str:
    return asyncio.run(PostgreSQLSource(parameters).look())


def _look_at_outbox(parameters: PostgreSQLOutboxParameters) -> str:
    return asyncio.run(PostgreSQLOutboxSource(parameters).look())


def _look_at_sink(parameters: PostgreSQLSinkParameters) -> str:
    return asyncio.run(PostgreSQLSink(parameters).look())


def _look_at_upsert(parameters: PostgreSQLUpsertParameters) -> str:
    return asyncio.run(PostgreSQLUpsertSink(parameters).look())


POSTGRESQL = Implementation(PostgreSQLParameters, PostgreSQLSource, _look_at_table)
POSTGRESQL_OUTBOX = Implementation(PostgreSQLOutboxParameters, PostgreSQLOutboxSource, _look_at_outbox)
POSTGRESQL_SINK = Implementation(PostgreSQLSinkParameters, PostgreSQLSink, _look_at_sink)
POSTGRESQL_UPSERT = Implementation(PostgreSQLUpsertParameters, PostgreSQLUpsertSink, _look_at_upsert)


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
