"""`headrace positions`: shows where a stopped query continues, and writes a checkpoint that continues elsewhere."""

from headrace.cli.positions.commands import positions

__all__ = ["positions"]
