"""Why a deployment cannot be run.

DeploymentError
├── AlreadyRuns     another supervisor runs it
├── CannotAsk       the supervisor does not tell of its processes
├── CannotChange    a running deployment cannot take over a change of its file
├── CannotRestart   a connector was not restarted
├── CannotRun       one of its processes can never run as it is configured
├── CannotStart     its folder cannot be used, or the system lacks what a supervisor needs
├── NotRunning      no supervisor runs it
└── Stopped         it was told to stop before it ran
"""

from headrace.contract.errors import HeadraceError


class DeploymentError(HeadraceError):
    """The root of the errors of a deployment."""


class AlreadyRuns(DeploymentError):
    """Another supervisor runs the same deployment."""

    exit_code = 2


class CannotAsk(DeploymentError):
    """The supervisor does not answer, or not this caller."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Takes the message and the exit code of the command."""
        super().__init__(message)
        self.exit_code = exit_code


class CannotChange(DeploymentError):
    """A change of the file needs a restart of the whole deployment."""


class CannotRestart(DeploymentError):
    """A connector was not restarted, or has failed since; `exit_code` is 2 if the request itself is wrong."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Takes the message and the exit code of the command."""
        super().__init__(message)
        self.exit_code = exit_code


class CannotRun(DeploymentError):
    """A process ended before it ever connected, because of a usage or configuration error or a missing requirement."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Takes the message and the exit code of the process."""
        super().__init__(message)
        self.exit_code = exit_code


class CannotStart(DeploymentError):
    """Its folder cannot be used, or the system lacks what a supervisor needs."""


class NotRunning(DeploymentError):
    """No supervisor runs the deployment."""


class Stopped(DeploymentError):
    """It was told to stop while it was being prepared: nothing of it runs."""
