"""Every error of the conformance kit.

HeadraceError
├── SpecError       the specification is wrong, or a command that it names failed
├── CannotStart     the connector's command cannot be started
├── CheckFailed     the connector broke the rule that a check judges
└── NotJudged       the connector does not have what a check needs, although that is declared
"""

from headrace.contract.errors import HeadraceError


class SpecError(HeadraceError):
    """The specification is wrong, or a command that it names failed. Ends the run."""

    exit_code = 2


class CannotStart(HeadraceError):
    """The connector's command cannot be started: it does not exist, or cannot be executed. Ends the run."""

    exit_code = 3


class CheckFailed(HeadraceError):
    """The connector broke the rule that a check judges. The text says how."""


class NotJudged(HeadraceError):
    """The connector does not have what a check needs, such as two streams. The check is skipped, and the text says why."""
