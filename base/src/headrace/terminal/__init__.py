"""Shared parts of all command lines: output, exit codes, and the options for connecting to a gateway."""

from headrace.contract.counts import counted
from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.terminal.connection import (
    CALL_TIMEOUT_S,
    Connection,
    connection_options,
    opened_token_file,
    own_connection_options,
)
from headrace.terminal.output import (
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_INVALID,
    Failure,
    ago_text,
    bytes_text,
    console,
    duration_text,
    print_json,
    print_line,
    print_text,
)
from headrace.terminal.program import TIME, ProgramCommand, ProgramGroup, as_typed, run_program, setting_option
from headrace.terminal.results import JsonOption, command_name, failures_as_json, json_option, note_words, print_result

__all__ = [
    "CALL_TIMEOUT_S",
    "DEFAULT_GATEWAY",
    "EXIT_ENVIRONMENT",
    "EXIT_FAILED",
    "EXIT_INVALID",
    "TIME",
    "Connection",
    "Failure",
    "JsonOption",
    "ProgramCommand",
    "ProgramGroup",
    "ago_text",
    "as_typed",
    "bytes_text",
    "command_name",
    "connection_options",
    "console",
    "counted",
    "duration_text",
    "failures_as_json",
    "json_option",
    "note_words",
    "opened_token_file",
    "own_connection_options",
    "print_json",
    "print_line",
    "print_result",
    "print_text",
    "run_program",
    "setting_option",
]
