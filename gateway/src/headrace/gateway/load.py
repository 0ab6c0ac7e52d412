"""Loads a `Config` from a TOML file, environment variables and command-line flags, and formats a `Config` as TOML."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.configuration import ConfigurationFile, Flag
from headrace.gateway.config import Config
from headrace.gateway.identity import token_digest
from headrace.gateway.tls import check_files

OPTION_KEYS = {
    "listen": ("listen",),
    "insecure": ("insecure",),
    "tls_cert": ("tls", "cert"),
    "tls_key": ("tls", "key"),
    "tls_client_ca": ("tls", "client_ca"),
    "buffer_bytes": ("limits", "buffer_bytes"),
    "max_frame_bytes": ("limits", "max_frame_bytes"),
    "max_sessions": ("limits", "max_sessions"),
    "drain_timeout_seconds": ("limits", "drain_timeout_seconds"),
    "http_listen": ("http", "listen"),
    "log_format": ("log", "format"),
    "log_level": ("log", "level"),
}
"""The configuration key of each option of `headrace gateway`."""


def load_config(
    path: Path | None = None, flags: Mapping[tuple[str, ...], Flag] | None = None, environ: Mapping[str, str] = os.environ
) -> Config:
    """Reads and validates a configuration.

    Args:
        path: A TOML file; None means all defaults.
        flags: Values that override the file, by key such as `("limits", "buffer_bytes")`.
        environ: The environment in which `${NAME}` and `${NAME:-default}` are looked up.

    Raises:
        ConfigurationError: It is invalid; the error lists every problem with file, line and key, or with the option.
    """
    reading = ConfigurationFile(path, environ, flags)
    secrets = [reading.secret(("tokens", index, "token")) for index in range(reading.count(("tokens",)))]
    document = reading.table()
    for index, secret in enumerate(secrets):
        if secret is not None:
            # The digest replaces the token, so that the secret is not kept in memory.
            table = document["tokens"][index]
            del table["token"]
            given = table.get("sha256", [])
            others = [given] if isinstance(given, str) else given
            if isinstance(others, list):
                # All are valid while one replaces the other.
                table["sha256"] = list(dict.fromkeys([*others, token_digest(secret)]))
    config = reading.take(Config, document, known_keys=["tokens.token"])
    if config is not None and config.tls is not None:
        for name, message in check_files(config.tls):
            reading.report(("tls", name), message)
    reading.check()
    assert config is not None
    return config


def redacted_toml(config: Config) -> str:
    """Formats a configuration as TOML, without the tokens' digests."""
    plain = config.model_dump(mode="json", exclude_none=True)
    for token in plain["tokens"]:
        token["sha256"] = "(hidden)"
    lines: list[str] = []
    _write_table(lines, "", plain)
    return "\n".join(lines).strip() + "\n"


def _write_table(lines: list[str], header: str, table: Mapping[str, Any]) -> None:
    nested = {key: value for key, value in table.items() if isinstance(value, dict) or (value and _is_tables(value))}
    if header:
        lines.extend(("", header))
    lines.extend(f"{key} = {_toml_value(value)}" for key, value in table.items() if key not in nested)
    for key, value in nested.items():
        for inner in value if isinstance(value, list) else [value]:
            _write_table(lines, f"[[{key}]]" if isinstance(value, list) else f"[{key}]", inner)


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(inner, dict) for inner in value)


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(inner) for inner in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)
