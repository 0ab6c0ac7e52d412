"""The Headrace gateway: sessions of connectors on one side, pipelines on the other, nothing on disk.

`load_config` and `serve` are what `headrace gateway` is made of.
"""

from typing import TYPE_CHECKING, Any

from headrace.gateway._config import Config, Limits, Log, StreamRule, Tls, Token
from headrace.gateway._errors import ConfigError, GatewayError, ListenError, Problem
from headrace.gateway._identity import Identity, identity_of, token_digest
from headrace.gateway._load import OPTION_KEYS, Flag, load_config, redacted_toml
from headrace.gateway._logging import configure_logging
from headrace.gateway._reload import ConfigSource
from headrace.gateway._units import parse_bytes

if TYPE_CHECKING:
    from headrace.gateway._server import serve

__all__ = [
    "OPTION_KEYS",
    "Config",
    "ConfigError",
    "ConfigSource",
    "Flag",
    "GatewayError",
    "Identity",
    "Limits",
    "ListenError",
    "Log",
    "Problem",
    "StreamRule",
    "Tls",
    "Token",
    "configure_logging",
    "identity_of",
    "load_config",
    "parse_bytes",
    "redacted_toml",
    "serve",
    "token_digest",
]


def __getattr__(name: str) -> Any:
    """Imports the server when it is first asked for: who only reads a configuration needs none."""
    if name != "serve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.gateway._server import serve

    return serve
