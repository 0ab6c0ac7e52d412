"""The core of the gateway: its state and its rules, without any I/O."""

from headrace.gateway.core._errors import ProtocolError
from headrace.gateway.core._gateway import Gateway
from headrace.gateway.core._housekeeping import keep_house
from headrace.gateway.core._snapshot import VERSION, snapshot

__all__ = ["VERSION", "Gateway", "ProtocolError", "keep_house", "snapshot"]
