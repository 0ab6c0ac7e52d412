"""What can go wrong with a cluster.

ClusterError    a cluster did not reach an expected state
"""

from headrace.contract.errors import HeadraceError


class ClusterError(HeadraceError):
    """A cluster did not reach an expected state in time; the message has the state, and the last output of each process."""
