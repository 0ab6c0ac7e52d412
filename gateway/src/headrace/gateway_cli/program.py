"""`headrace-gateway`: the options and commands of `headrace gateway`, plus `status` and `forget`."""

from typing import NoReturn

from headrace.gateway_cli.forget import forget
from headrace.gateway_cli.gateway import gateway
from headrace.gateway_cli.status import status
from headrace.terminal import run_program
from headrace.terminal.completion import completion

_PROGRAM = "headrace-gateway"
_TYPED = {
    "headrace completion": f"{_PROGRAM} completion",
    "headrace.fish": f"{_PROGRAM}.fish",
    "headrace gateway": _PROGRAM,
    "headrace status": f"{_PROGRAM} status",
    "headrace forget": f"{_PROGRAM} forget",
}

program = gateway.program(_PROGRAM, _TYPED, completion=completion, forget=forget, status=status)


def main() -> NoReturn:
    """Runs `headrace-gateway`, and exits with its exit code."""
    run_program(program, _PROGRAM)
