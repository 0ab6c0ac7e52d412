"""Why a deployment cannot be run.

DeploymentError
├── AlreadyRuns     another supervisor runs it
└── CannotRun       one of its processes can never run as it is configured
"""


class DeploymentError(Exception):
    """The root; its text says what to do."""

    exit_code = 1


class AlreadyRuns(DeploymentError):
    """Another supervisor runs the same deployment."""

    exit_code = 2


class CannotRun(DeploymentError):
    """A process ended before it ever ran, since it was asked for something wrong or this machine lacks something."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Keeps the exit code of the process."""
        super().__init__(message)
        self.exit_code = exit_code
