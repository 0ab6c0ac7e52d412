"""What can go wrong with a run.

DemoError              the run could not be brought to its end
└── EnvironmentLacks   this machine has not what it needs
"""

from collections.abc import Sequence

from headrace.contract.errors import HeadraceError


class DemoError(HeadraceError):
    """The run could not be brought to its end."""

    def __init__(self, message: str, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)
        """The last lines of the log that tells more; empty where none does."""


class EnvironmentLacks(DemoError):
    """This machine has not what the run needs; the message says how to get it."""

    exit_code = 3
