"""`headrace-connectors`: the commands of `headrace connector`, and `dlq` beside them."""

from typing import NoReturn

from headrace.connectors_cli._connector import connector
from headrace.connectors_cli._dlq import dlq
from headrace.terminal import run_program

_PROGRAM = "headrace-connectors"
_TYPED = {"headrace connector": _PROGRAM, "headrace dlq": f"{_PROGRAM} dlq"}

program = connector.program(_PROGRAM, _TYPED, dlq=dlq)


def main() -> NoReturn:
    """Runs `headrace-connectors`, and exits with its code."""
    run_program(program, _PROGRAM)
