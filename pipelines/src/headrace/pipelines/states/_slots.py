"""The slots of classes."""

from functools import lru_cache


@lru_cache(maxsize=1024)
def slots_of(kind: type) -> tuple[str, ...]:
    """The names of the slots of a class and its bases, as attributes of an instance, the bases first."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        slots = base.__dict__.get("__slots__", ())
        names += [_mangled(base, name) for name in ([slots] if isinstance(slots, str) else slots)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _mangled(kind: type, name: str) -> str:
    """The mangled name of a private attribute."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name
