"""Standard output: a sink for inspecting messages."""

from headrace.connectors.stdout._parameters import STDOUT_SINK, StdoutSinkParameters
from headrace.connectors.stdout._sink import StdoutSink

__all__ = ["STDOUT_SINK", "StdoutSink", "StdoutSinkParameters"]
