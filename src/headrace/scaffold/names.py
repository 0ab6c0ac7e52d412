"""The name of a project, from which all its other names are derived, and why a project is not created.

HeadraceError
└── ScaffoldError       nothing was written
    ├── InvalidName     the name of the project breaks a rule, which the message states
    ├── FolderNotEmpty  there is something already where the project would be
    └── NotAnSdk        the folder of the SDK is not one of the language
"""

import re

from headrace.connectors import CONNECTORS
from headrace.contract.errors import HeadraceError

MAX_LENGTH = 40
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class ScaffoldError(HeadraceError):
    """A project cannot be created; nothing was written."""


class InvalidName(ScaffoldError):
    """The name of a project breaks a rule."""


class FolderNotEmpty(ScaffoldError):
    """There is something already where the project would be."""


class NotAnSdk(ScaffoldError):
    """A folder that was given as an SDK is not one of the language."""


def checked_name(name: str) -> str:
    """Returns a name that is valid in every language.

    Raises:
        InvalidName: It is not.
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_LENGTH:
        raise InvalidName(
            f"the name {name!r} is not valid: it needs up to {MAX_LENGTH} small letters, digits and single hyphens, and begins "
            "with a letter, such as order-events"
        )
    return name


def checked_connector_name(name: str) -> str:
    """Returns a name that a connector can have.

    Raises:
        InvalidName: It breaks a rule, or a bundled connector bears it.
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
