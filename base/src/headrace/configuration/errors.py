"""The errors of a configuration.

ConfigurationError    contains all problems found
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.contract.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a configuration.

    Attributes:
        place: The file, or the command-line option that set the value.
        line: The line in the file, counted from 1; None for the whole file, or for an option.
        key: The dotted key, such as `gateway.address`; empty if the problem has no key.
        message: The error, and what to write instead.
    """

    place: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = self.place if self.line is None else f"{self.place}:{self.line}"
        return ": ".join(part for part in (place, self.key, self.message) if part)


class ConfigurationError(HeadraceError):
    """A configuration is invalid; the text has one line for each problem."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Stores the problems, sorted by line."""
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__("\n".join(map(str, self.problems)))
