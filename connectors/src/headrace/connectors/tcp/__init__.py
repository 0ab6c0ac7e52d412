"""TCP: a source that receives length-prefixed messages."""

from headrace.connectors._connector import Implementation
from headrace.connectors.tcp._parameters import TcpParameters
from headrace.connectors.tcp._source import TcpSource

TCP = Implementation(TcpParameters, TcpSource, TcpParameters.check)

__all__ = ["TCP", "TcpParameters", "TcpSource"]
