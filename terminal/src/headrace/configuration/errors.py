"""What is wrong with a configuration.

ConfigurationError    holds every problem found
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.contract.errors import HeadraceError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        place: The file, or the option of the command line that the value came with.
        line: Where in the file, from 1; None for the file as a whole, and for an option.
        key: The dotted key, `gateway.address`; empty where no key is to blame.
        message: What is wrong, and what to write instead.
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
        """Keeps the problems, in the order of their lines."""
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line or 0))
        super().__init__("\n".join(map(str, self.problems)))
