"""The name of a project, from which all its other names are derived."""

import re

from headrace.connectors import CONNECTORS
from headrace.scaffold.errors import InvalidName

LONGEST = 40
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def checked_name(name: str) -> str:
    """Returns a name that is valid in every language.

    Raises:
        InvalidName: It is not.
    """
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise InvalidName(
            f"the name {name!r} is not valid: it needs up to {LONGEST} small letters, digits and single hyphens, and begins "
            "with a letter, such as order-events"
        )
    return name


def checked_connector_name(name: str) -> str:
    """Returns a name that a connector can have.

    Raises:
        InvalidName: It breaks a rule, or is that of a bundled connector.
    """
    if any(known.name == checked_name(name) for known in CONNECTORS):
        raise InvalidName(f"{name} is a bundled connector, and a plugin of its name could not be used; choose another name")
    return name


def snake_case(name: str) -> str:
    """Returns `order_events` for `order-events`."""
    return name.replace("-", "_")


def joined(name: str) -> str:
    """Returns `orderevents` for `order-events`."""
    return name.replace("-", "")
