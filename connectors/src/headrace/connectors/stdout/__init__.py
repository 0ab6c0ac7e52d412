"""Standard output: a sink for inspecting messages."""

from headrace.connectors.stdout._sink import STDOUT_SINK, StdoutSink, StdoutSinkParameters

__all__ = ["STDOUT_SINK", "StdoutSink", "StdoutSinkParameters"]
