"""The gateway's errors.

GatewayError
├── ConfigError     the configuration is wrong; holds every problem found
└── ListenError     the address cannot be listened on
"""

from collections.abc import Sequence
from dataclasses import dataclass


class GatewayError(Exception):
    """Root of everything that the gateway raises to whoever starts it."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a configuration."""

    place: str
    """Where: `path/to/file.toml:12`, or the name of a command-line flag."""
    key: str
    """The dotted key, `limits.buffer_bytes`; empty where no key is to blame."""
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.key, self.message) if part)


class ConfigError(GatewayError):
    """The configuration is wrong; its text has one line for each problem."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class ListenError(GatewayError):
    """The address cannot be listened on; the text says why and what to do."""

    exit_code = 3
