"""Speeds up the start of Spark on this machine, by an archive of the classes that a job of Headrace loads."""

from headrace.preparation.background import prepare_in_background
from headrace.preparation.prepare import PreparationFailed, prepare

__all__ = ["PreparationFailed", "prepare", "prepare_in_background"]
