"""Classifies errors of PostgreSQL: whether to retry, to stop, or to refuse a row."""

import re

import psycopg

_PASSING_CLASSES = frozenset({"08", "40", "53", "55", "57", "58"})
"""Connections, rollbacks by the server, resources, locks, operator interventions, and system errors."""
_READ_ONLY = "25006"
NO_ROW_CLASSES = _PASSING_CLASSES | {"0B", "25", "2D", "3B"}
"""These errors never concern a row: passing ones, and errors of transactions. Triggers, functions and policies of a table may
report any other for a row."""
# libpq has no error code for failures before a session begins, only these texts.
_HOPELESS = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|role \".*\" does not exist|database \".*\" does not exist"
    r"|is not permitted to log in|permission denied for database|certificate|server does not support SSL|invalid .*(option|value)"
)


# Also what libpq says of a key and a certificate that do not belong together, while one of them is replaced.
_CERTIFICATES = re.compile(r"certificate|private key|SSL error", re.IGNORECASE)


def concerns_certificates(error: psycopg.Error) -> bool:
    """Returns whether a connection failed because of a certificate, a key or an authority, on either side."""
    return error.sqlstate is None and _CERTIFICATES.search(str(error)) is not None


def is_passing(error: BaseException) -> bool:
    """Returns whether a retry may succeed: the server is unavailable, restarts or is full, or another session has a lock."""
    if isinstance(error, TimeoutError | OSError):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    if error.sqlstate is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return lost and _HOPELESS.search(str(error)) is None
    return error.sqlstate[:2] in _PASSING_CLASSES or error.sqlstate == _READ_ONLY


def concerns_row(error: psycopg.Error) -> bool:
    """Returns whether a row may be the reason; it is if the statement succeeds without any row."""
    return error.sqlstate is not None and error.sqlstate[:2] not in NO_ROW_CLASSES


def in_a_line(error: BaseException) -> str:
    """Returns the error in one line, without its position in a statement and without hints."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        details = [error.diag.message_primary, error.diag.message_detail, error.diag.message_hint]
        return "; ".join(detail.rstrip(".") for detail in details if detail)
    return next(iter(str(error).splitlines()), type(error).__name__)
