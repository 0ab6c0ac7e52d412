"""What commands print; other distributions print it, too: it is in `headrace.terminal`."""

from headrace.terminal import (
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

__all__ = [
    "EXIT_ENVIRONMENT",
    "EXIT_FAILED",
    "EXIT_INVALID",
    "Failure",
    "bytes_text",
    "console",
    "duration_text",
    "print_action",
    "print_json",
]
