"""What all command lines share: output, exit codes, the options that reach a gateway, and the lines of TOML files."""

from headrace.terminal._connection import CALL_TIMEOUT_S, DEFAULT_GATEWAY, Connection, connection_options
from headrace.terminal._output import (
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_INVALID,
    Failure,
    bytes_text,
    console,
    duration_text,
    print_action,
    print_json,
)
from headrace.terminal._program import ProgramCommand, ProgramGroup, as_typed, run_program
from headrace.terminal._toml_lines import key_lines

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
    "key_lines",
    "print_action",
    "print_json",
    "run_program",
]
