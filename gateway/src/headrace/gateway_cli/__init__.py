"""The command line of the gateway, `headrace-gateway`. `headrace` has the same commands.

Only the command that runs the gateway imports it.
"""

from functools import partial

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

__all__ = [
    "dead_letters",
    "drain",
    "events",
    "forget",
    "gateway",
    "main",
    "pause",
    "peek",
    "program",
    "resume",
    "status",
    "timeline",
    "top",
    "why",
]

program = gateway.program(
    "headrace-gateway", dead_letters, drain, events, forget, pause, peek, resume, status, timeline, top, why
)
"""`headrace-gateway`: the options and commands of `headrace gateway`, plus commands that call a gateway."""
main = partial(run_program, program, "headrace-gateway")
"""Runs `headrace-gateway`, and exits with its exit code."""
