"""Fields that all lines of a block of code have in the log."""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

_context: ContextVar[Mapping[str, object] | None] = ContextVar("fields of the log", default=None)


@contextlib.contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Adds fields to all lines that are logged in the block, also by the tasks that it creates."""
    token = _context.set({**context_fields(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def context_fields() -> Mapping[str, object]:
    """Returns the fields that lines have here."""
    return _context.get() or {}
