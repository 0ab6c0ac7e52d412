"""Why a deployment cannot be run.

DeploymentError
├── AlreadyRuns     another supervisor runs it
├── CannotChange    a running deployment cannot take over a change of its file
└── CannotRun       one of its processes can never run as it is configured
"""

from headrace.contract.errors import HeadraceError


class DeploymentError(HeadraceError):
    """The root of the errors of a deployment."""


class AlreadyRuns(DeploymentError):
    """Another supervisor runs the same deployment."""

    exit_code = 2


class CannotChange(DeploymentError):
    """A change of the file needs a restart of the whole deployment."""


class CannotRun(DeploymentError):
    """A process ended before it ever connected, because of a usage or configuration error or a missing requirement."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Takes the message and the exit code of the process."""
        super().__init__(message)
        self.exit_code = exit_code
