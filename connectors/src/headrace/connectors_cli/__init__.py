"""The command line of connectors, `headrace-connectors`; `headrace` mounts its commands as `connector` and `dead-letters`."""

from functools import partial

from headrace.connectors_cli.connector import connector
from headrace.connectors_cli.dead_letters import dead_letters
from headrace.connectors_cli.time_index import TimePositions, positions_of
from headrace.terminal import run_program

__all__ = ["TimePositions", "connector", "dead_letters", "main", "positions_of", "program"]

program = connector.program("headrace-connectors", dead_letters)
"""`headrace-connectors`: the commands of `headrace connector`, and `dead-letters`."""
main = partial(run_program, program, "headrace-connectors")
"""Runs `headrace-connectors`, and exits with its exit code."""
