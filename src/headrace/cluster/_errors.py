"""What can go wrong with a cluster.

ClusterError    a cluster did not come to where it should
"""


class ClusterError(Exception):
    """A cluster did not come to where it should; the message tells what was waited for, and what its processes said last."""
