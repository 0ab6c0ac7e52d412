"""The options of every command that calls a gateway; other distributions have them, too: they are in `headrace.terminal`."""

from headrace.terminal import CALL_TIMEOUT_S, DEFAULT_GATEWAY, Connection, connection_options

__all__ = ["CALL_TIMEOUT_S", "DEFAULT_GATEWAY", "Connection", "connection_options"]
