"""The errors of chaos runs.

ChaosError    the processes did not reach an expected state
"""

from headrace.contract.errors import HeadraceError


class ChaosError(HeadraceError):
    """The processes did not reach an expected state in time; the message has the state, and the last output of each process."""
