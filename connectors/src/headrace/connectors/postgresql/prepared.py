"""Prepared transactions of the server, whose names identify their owner."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

from psycopg import sql

from headrace.connectors.postgresql.database import Session
from headrace.connectors.postgresql.names import value
from headrace.sdk import Part, Transaction

_MAX_BYTES = 200
_DIGEST_CHARACTERS = 16
_ALL = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, 'headrace:')"


def name_of(schema: str, sink: str, owner: str, transaction: Transaction) -> str:
    """Returns the prefix of the names of a transaction's prepared transactions; a digest if it would be long or ambiguous."""
    name = f"headrace:{schema}:{sink}:{owner}:{transaction.pipeline}:{transaction.batch}:"
    if len(name.encode()) + _DIGEST_CHARACTERS <= _MAX_BYTES and ":" not in schema:
        return name
    digest = sha256("\0".join((schema, sink, owner, transaction.pipeline)).encode()).hexdigest()
    return f"headrace:{digest}:{transaction.batch}:"


def digest_of(parts: Iterable[Part]) -> str:
    """Returns a digest that distinguishes one selection of parts from another."""
    names = "\0".join(f"{part.partition}/{part.attempt}" for part in parts)
    return sha256(names.encode()).hexdigest()[:_DIGEST_CHARACTERS]


async def prepared(session: Session, name: str = "") -> Sequence[str]:
    """Returns the prepared transactions with a prefix."""
    return [gid for (gid,) in await session.fetch(_ALL) if gid.startswith(name)]


def prepare(gid: str) -> sql.Composed:
    """Returns the statement that prepares the current transaction."""
    return sql.SQL("PREPARE TRANSACTION {}").format(value(gid))


async def commit(session: Session, gid: str) -> None:
    """Commits a prepared transaction."""
    await session.execute(sql.SQL("COMMIT PREPARED {}").format(value(gid)))


async def roll_back(session: Session, gid: str) -> None:
    """Rolls back a prepared transaction."""
    await session.execute(sql.SQL("ROLLBACK PREPARED {}").format(value(gid)))
