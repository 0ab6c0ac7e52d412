"""What is wrong with a configuration file.

ConfigurationError    holds every problem found
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: The file.
        line: Where in it, from 1; None for the file as a whole.
        key: The dotted key, `gateway.address`; empty where no key is to blame.
        message: What is wrong, and what to write instead.
    """

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.key, self.message) if part)


class ConfigurationError(Exception):
    """A configuration file is wrong; its text has one line for each problem."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keeps the problems, in the order of their lines."""
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__("\n".join(map(str, self.problems)))
