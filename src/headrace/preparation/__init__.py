"""Speeds up Spark's startup on this machine, by archiving the classes that a Headrace job loads."""

from headrace.preparation.background import prepare_in_background
from headrace.preparation.prepare import PreparationFailed, prepare

__all__ = ["PreparationFailed", "prepare", "prepare_in_background"]
