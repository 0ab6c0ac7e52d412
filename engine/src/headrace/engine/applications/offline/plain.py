"""States and keys as plain values, for people and other programs."""

import dataclasses
from typing import Any


def plain(value: Any) -> Any:
    """Converts a state or a key to JSON types: an instance to its fields, bytes to text with escapes for invalid UTF-8."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(plain(key)): plain(kept) for key, kept in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if (fields := getattr(value, "__struct_fields__", None)) is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    return plain(vars(value)) if hasattr(value, "__dict__") else repr(value)
