"""`headrace-gateway`: the options and commands of `headrace gateway`, plus commands that call a gateway."""

from typing import NoReturn

from headrace.gateway_cli.dead_letters import dead_letters
from headrace.gateway_cli.drain import drain
from headrace.gateway_cli.events import events
from headrace.gateway_cli.forget import forget
from headrace.gateway_cli.gateway import gateway
from headrace.gateway_cli.pause import pause, resume
from headrace.gateway_cli.peek import peek
from headrace.gateway_cli.status import status
from headrace.gateway_cli.timeline import timeline
from headrace.gateway_cli.top import top
from headrace.gateway_cli.why import why
from headrace.terminal import run_program
from headrace.terminal.program import completion

_PROGRAM = "headrace-gateway"
_TYPED = {
    "headrace completion": f"{_PROGRAM} completion",
    "headrace.fish": f"{_PROGRAM}.fish",
    "headrace gateway": _PROGRAM,
    "headrace status": f"{_PROGRAM} status",
    "headrace timeline": f"{_PROGRAM} timeline",
    "headrace top": f"{_PROGRAM} top",
    "headrace why": f"{_PROGRAM} why",
    "headrace dead-letters": f"{_PROGRAM} dead-letters",
    "headrace drain": f"{_PROGRAM} drain",
    "headrace events": f"{_PROGRAM} events",
    "headrace pause": f"{_PROGRAM} pause",
    "headrace peek": f"{_PROGRAM} peek",
    "headrace resume": f"{_PROGRAM} resume",
    "headrace forget": f"{_PROGRAM} forget",
}

program = gateway.program(
    _PROGRAM,
    _TYPED,
    completion=completion,
    **{"dead-letters": dead_letters},
    drain=drain,
    events=events,
    forget=forget,
    pause=pause,
    peek=peek,
    resume=resume,
    status=status,
    timeline=timeline,
    top=top,
    why=why,
)


def main() -> NoReturn:
    """Runs `headrace-gateway`, and exits with its exit code."""
    run_program(program, _PROGRAM)
