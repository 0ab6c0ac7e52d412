"""Why a project is not created.

HeadraceError
└── ScaffoldError       nothing was written
    ├── InvalidName     the name of the project breaks a rule, which the message states
    ├── FolderNotEmpty  there is something already where the project would be
    └── NotAnSdk        the folder of the SDK is not one of the language
"""

from headrace.contract.errors import HeadraceError


class ScaffoldError(HeadraceError):
    """A project cannot be created; nothing was written."""


class InvalidName(ScaffoldError):
    """The name of a project breaks a rule."""


class FolderNotEmpty(ScaffoldError):
    """There is something already where the project would be."""


class NotAnSdk(ScaffoldError):
    """A folder that was given as an SDK is not one of the language."""
