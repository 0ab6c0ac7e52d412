"""How the PostgreSQL connectors are built and checked."""

import asyncio

from headrace.connectors._connector import Implementation
from headrace.connectors.postgresql._outbox import PostgreSQLOutboxSource
from headrace.connectors.postgresql._parameters import (
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
