"""Lets Spark send classes that a program defines itself, in `__main__`: workers cannot import them, so they are sent whole."""

import pickle
from collections.abc import Callable
from typing import Any

from pyspark.cloudpickle import cloudpickle

_CACHE = "__msgspec_cache__"
"""Where msgspec keeps, in a dataclass, NamedTuple, TypedDict or Enum that it has read or written, what it knows of it."""


def send_program_classes() -> None:
    """Has Spark leave out of a class that it sends what msgspec keeps in it, and refuse a Struct, whose fields would be lost.

    pyspark's copy of cloudpickle has no public hook for either.
    """
    if cloudpickle._extract_class_dict is not _class_dict:
        cloudpickle._extract_class_dict = _class_dict


_of_cloudpickle: Callable[[type], dict[str, Any]] = cloudpickle._extract_class_dict


def _class_dict(cls: type) -> dict[str, Any]:
    """Returns what Spark sends of a class.

    Raises:
        PicklingError: The class is a Struct.
    """
    if hasattr(cls, "__struct_config__"):
        where = f"{cls.__qualname__} is a Struct of the program itself, and Spark's workers cannot import it"
        raise pickle.PicklingError(f"{where}; define it in a module beside the program, or as a dataclass")
    found = _of_cloudpickle(cls)
    found.pop(_CACHE, None)
    return found
