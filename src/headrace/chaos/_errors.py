"""What can go wrong with a world.

ChaosError    the world did not come to where it should
"""


class ChaosError(Exception):
    """The world did not come to where it should; the message tells what was waited for, and what its processes said last."""
