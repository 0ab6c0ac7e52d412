"""`headrace-conformance`: the commands of `headrace conformance`."""

from typing import NoReturn

from headrace.conformance.command import conformance
from headrace.terminal import run_program
from headrace.terminal.completion import completion

_PROGRAM = "headrace-conformance"
_TYPED = {
    "headrace completion": f"{_PROGRAM} completion",
    "headrace.fish": f"{_PROGRAM}.fish",
    "headrace conformance": _PROGRAM,
}

program = conformance.program(_PROGRAM, _TYPED, completion=completion)


def main() -> NoReturn:
    """Runs `headrace-conformance`, and exits with its code."""
    run_program(program, _PROGRAM)
