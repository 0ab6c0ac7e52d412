"""When a queue is about to give a message up: it delivers each one only so often."""


def is_near(deliveries: int, limit: int) -> bool:
    """Returns whether a message has used half of its deliveries.

    Args:
        deliveries: How often it has been delivered, this time included.
        limit: How often the queue delivers it at most; at least 1.
    """
    return limit == 1 or deliveries >= max(2, (limit + 1) // 2)
