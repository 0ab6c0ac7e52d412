"""The errors of demos, clusters and chaos runs.

DemoError              a run could not be completed
└── EnvironmentLacks   this machine lacks what the run needs
ClusterError           a cluster did not reach an expected state
ChaosError             the processes did not reach an expected state
"""

from collections.abc import Sequence

from headrace.contract.errors import HeadraceError


class DemoError(HeadraceError):
    """A run could not be completed."""

    def __init__(self, message: str, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.log = tuple(log)
        """The last lines of the log with details; empty if there is none."""


class EnvironmentLacks(DemoError):
    """This machine lacks what the run needs; the message says how to get it."""

    exit_code = 3


class ClusterError(HeadraceError):
    """A cluster did not reach an expected state in time; the message has the state, and the last output of each process."""


class ChaosError(HeadraceError):
    """The processes did not reach an expected state in time; the message has the state, and the last output of each process."""
