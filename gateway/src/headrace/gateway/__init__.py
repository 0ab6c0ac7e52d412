"""The Headrace gateway: it connects source and sink connectors with Spark queries, and stores nothing on disk.

`headrace gateway` loads its configuration with `load_config`, and runs `serve`.
"""

from typing import TYPE_CHECKING, Any

from headrace.gateway.config import Config, Http, Limits, Log, Paused, Peek, StreamRule, Telemetry, Tls, Token
from headrace.gateway.identity import Identity, identity_of, token_digest
from headrace.gateway.listen import GatewayError, ListenError
from headrace.gateway.load import OPTION_KEYS, load_config, redacted_toml
from headrace.gateway.logs import configure_logging
from headrace.gateway.reload import ConfigSource

if TYPE_CHECKING:
    from headrace.gateway.server import serve

__all__ = [
    "OPTION_KEYS",
    "Config",
    "ConfigSource",
    "GatewayError",
    "Http",
    "Identity",
    "Limits",
    "ListenError",
    "Log",
    "Paused",
    "Peek",
    "StreamRule",
    "Telemetry",
    "Tls",
    "Token",
    "configure_logging",
    "identity_of",
    "load_config",
    "redacted_toml",
    "serve",
    "token_digest",
]


def __getattr__(name: str) -> Any:
    """Imports the server on first use, since reading a configuration does not need it.

    Raises:
        AttributeError: the module has no such attribute.
    """
    if name != "serve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.gateway.server import serve

    return serve
