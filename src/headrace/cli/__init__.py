"""The command line: `headrace`."""

from headrace.cli.root import cli, main

__all__ = ["cli", "main"]
