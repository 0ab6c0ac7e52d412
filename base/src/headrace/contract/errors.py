"""The root of all errors that Headrace raises."""


class HeadraceError(Exception):
    """The base class of all Headrace errors. Each distribution has its own hierarchy below this class."""

    exit_code = 1
    """The exit code of a command that ends with this error."""
