"""Shared parts of all command lines: output, exit codes, and the options for connecting to a gateway."""

from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.terminal.connection import CALL_TIMEOUT_S, Connection, connection_options, own_connection_options
from headrace.terminal.output import (
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_INVALID,
    Failure,
    bytes_text,
    console,
    duration_text,
    fail_action,
    print_action,
    print_json,
    print_line,
)
from headrace.terminal.program import ProgramCommand, ProgramGroup, as_typed, run_program

__all__ = [
    "CALL_TIMEOUT_S",
    "DEFAULT_GATEWAY",
    "EXIT_ENVIRONMENT",
    "EXIT_FAILED",
    "EXIT_INVALID",
    "Connection",
    "Failure",
    "ProgramCommand",
    "ProgramGroup",
    "as_typed",
    "bytes_text",
    "connection_options",
    "console",
    "duration_text",
    "fail_action",
    "own_connection_options",
    "print_action",
    "print_json",
    "print_line",
    "run_program",
]
