"""`headrace-connectors`: the commands of `headrace connector`, and `dead-letters`."""

from typing import NoReturn

from headrace.connectors_cli.connector import connector
from headrace.connectors_cli.dead_letters import dead_letters
from headrace.terminal import run_program
from headrace.terminal.program import completion

_PROGRAM = "headrace-connectors"
_TYPED = {
    "headrace completion": f"{_PROGRAM} completion",
    "headrace.fish": f"{_PROGRAM}.fish",
    "headrace connector": _PROGRAM,
    "headrace dead-letters": f"{_PROGRAM} dead-letters",
}

program = connector.program(_PROGRAM, _TYPED, completion=completion, **{"dead-letters": dead_letters})


def main() -> NoReturn:
    """Runs `headrace-connectors`, and exits with its code."""
    run_program(program, _PROGRAM)
