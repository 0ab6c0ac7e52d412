"""The settings of a session, which decide how values are written and read: no setting of a role or a database changes a byte."""

from psycopg import sql

_KEEPALIVES = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"}
_TEXTS = {
    "client_encoding": "UTF8",
    "timezone": "UTC",
    "timezone_abbreviations": "Default",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmlbinary": "base64",
    "xmloption": "content",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "gin_fuzzy_search_limit": "0",
}
"""How values are written and read."""
_CONDUCT = {
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "idle_session_timeout": "0",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}
"""How statements are executed. Several processes would not pack rows in order."""
_SINCE_17 = {"transaction_timeout": "0"}
# Functions and operators of other schemas must not hide the server's; where the user's own are found stays the user's choice.
# A commit that is reported must survive a crash of the server.
SEARCH_PATH = """
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
    UNION ALL
    SELECT set_config('search_path', coalesce((
        SELECT string_agg(quote_ident(schema), ', ' ORDER BY place)
        FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (schema, place) WHERE schema <> 'pg_catalog'), ''), false)
"""
"""The statement that puts the server's own schema at the front, and lets each commit reach the disk."""


def settings(version: int, timeout_seconds: float) -> sql.Composed:
    """Returns the statements that make a session the same for every role and database.

    Args:
        version: The version of the server, such as 150004.
        timeout_seconds: How long a statement may take.
    """
    milliseconds = int(timeout_seconds * 1000)
    limits = {
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(milliseconds),
        "lock_timeout": str(milliseconds // 2),
    }
    all_ = {**_TEXTS, **_CONDUCT, **_KEEPALIVES, **(_SINCE_17 if version >= 170_000 else {}), **limits}
    return sql.SQL("; ").join(
        sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in all_.items()
    )
