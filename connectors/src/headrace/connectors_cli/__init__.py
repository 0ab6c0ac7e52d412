"""The command line of connectors: `headrace-connectors`, which `headrace connector` and `headrace dlq` are, too."""

from headrace.connectors_cli._connector import connector
from headrace.connectors_cli._dlq import dlq
from headrace.connectors_cli._program import main, program

__all__ = ["connector", "dlq", "main", "program"]
