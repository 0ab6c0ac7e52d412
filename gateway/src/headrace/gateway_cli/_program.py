"""`headrace-gateway`: the options and commands of `headrace gateway`, and `status` and `forget` beside them."""

from typing import NoReturn

from headrace.gateway_cli._forget import forget
from headrace.gateway_cli._gateway import gateway
from headrace.gateway_cli._status import status
from headrace.terminal import run_program

_PROGRAM = "headrace-gateway"
_TYPED = {
    "headrace gateway": _PROGRAM,
    "headrace status": f"{_PROGRAM} status",
    "headrace forget": f"{_PROGRAM} forget",
}

program = gateway.program(_PROGRAM, _TYPED, status=status, forget=forget)


def main() -> NoReturn:
    """Runs `headrace-gateway`, and exits with its code."""
    run_program(program, _PROGRAM)
