"""What errors of PostgreSQL mean: whether to try again, whether to stop, or whether a row will never be taken."""

import re

import psycopg

_PASSING_CLASSES = frozenset({"08", "40", "53", "55", "57", "58"})
"""Connections, rollbacks of the server's own accord, resources, locks, interventions, and the server's own system."""
_READ_ONLY = "25006"
ROW_CLASSES = frozenset({"22", "23", "44", "54", "P0"})
"""What is wrong with a row: data, integrity, views with a check option, limits of the server, and what triggers raise."""
# libpq gives no code for what went wrong before a session began: only these texts.
_HOPELESS = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|role \".*\" does not exist|database \".*\" does not exist"
    r"|is not permitted to log in|permission denied for database|certificate|server does not support SSL|invalid .*(option|value)"
)


def is_passing(error: BaseException) -> bool:
    """True where the same may well succeed later: the server is away, restarts, is full, or somebody else has a lock."""
    if isinstance(error, TimeoutError | OSError):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return lost and _HOPELESS.search(str(error)) is None
    return error.sqlstate[:2] in _PASSING_CLASSES or error.sqlstate == _READ_ONLY


def concerns_row(error: psycopg.Error) -> bool:
    """True where the server refuses a row for what is in it."""
    return error.sqlstate is not None and error.sqlstate[:2] in ROW_CLASSES


def in_a_line(error: BaseException) -> str:
    """An error without what only says where in a statement it was, or what it may mean."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        details = [error.diag.message_primary, error.diag.message_detail, error.diag.message_hint]
        return "; ".join(detail.rstrip(".") for detail in details if detail)
    return next(iter(str(error).splitlines()), type(error).__name__)
