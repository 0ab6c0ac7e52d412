"""Has Spark start quicker on this machine: an archive of the classes that a job of Headrace loads."""

from headrace.preparation._prepare import PreparationFailed, prepare

__all__ = ["PreparationFailed", "prepare"]
