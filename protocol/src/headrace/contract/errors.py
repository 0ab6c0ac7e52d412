"""The root of every error of Headrace, whichever distribution raises it."""


class HeadraceError(Exception):
    """Something went wrong in Headrace. Each distribution has a hierarchy of its own below this class."""

    exit_code = 1
    """What a command exits with that ends by this error."""
