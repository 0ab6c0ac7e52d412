"""Every error of the conformance kit.

HeadraceError
├── SpecError       the specification is wrong, or a command that it names failed
├── CannotStart     the connector's command cannot be started
├── Interrupted     a signal has ended the run
├── CheckFailed     the connector broke the rule that a check judges
└── NotJudged       the connector does not have what a check needs, although that is declared
"""

import signal

from headrace.contract.errors import HeadraceError


class SpecError(HeadraceError):
    """The specification is wrong, or a command that it names failed. Ends the run."""

    exit_code = 2


class CannotStart(HeadraceError):
    """The connector's command cannot be started: it does not exist, or cannot be executed. Ends the run."""

    exit_code = 3


class Interrupted(HeadraceError):
    """A signal has ended the run. The exit code is the one of a process that the signal ends."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"{number.name} has stopped the run; the connector is killed")
        self.exit_code = 128 + number


class CheckFailed(HeadraceError):
    """The connector broke the rule that a check judges. The text says how."""


class NotJudged(HeadraceError):
    """The connector does not have what a check needs, such as two streams. The check is skipped, and the text says why."""
