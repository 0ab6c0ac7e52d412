"""The command line of connectors, `headrace-connectors`; `headrace` mounts its commands as `connector` and `dead-letters`."""

from headrace.connectors_cli.connector import connector
from headrace.connectors_cli.dead_letters import dead_letters
from headrace.connectors_cli.program import main, program
from headrace.connectors_cli.time_index import TimePositions, positions_of

__all__ = ["TimePositions", "connector", "dead_letters", "main", "positions_of", "program"]
