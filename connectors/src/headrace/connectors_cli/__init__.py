"""The command line of connectors, `headrace-connectors`; `headrace` mounts its commands as `connector` and `dlq`."""

from headrace.connectors_cli.connector import connector
from headrace.connectors_cli.dlq import dlq
from headrace.connectors_cli.program import main, program

__all__ = ["connector", "dlq", "main", "program"]
