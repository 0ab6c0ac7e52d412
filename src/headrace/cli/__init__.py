"""The command line: `headrace`."""

from headrace.cli._root import cli, main

__all__ = ["cli", "main"]
