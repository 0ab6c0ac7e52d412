"""What can be wrong with a receiver, told so that it can be mended.

HttpError
├── Unavailable     it does not answer, or says that it cannot now: worth another attempt
└── Denied          it answers that the request as such is wrong, whatever the message
"""

from headrace.sdk import HeadraceError


class HttpError(HeadraceError):
    """The root of what the HTTP sink raises."""


class Unavailable(HttpError):
    """The receiver does not answer, or says that it cannot now.

    Attributes:
        retry_after: In how many seconds it wants to be asked again; None where it does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        """Keeps what it has asked for."""
        super().__init__(message)
        self.retry_after = retry_after


class Denied(HttpError):
    """The receiver will answer no request like this one: there is nothing at the URL, or the token is wrong."""
