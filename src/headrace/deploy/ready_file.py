"""The address of the gateway, in memory: a full disk keeps no deployment from starting."""

import os

from headrace.deploy.errors import CannotStart


class ReadyFile:
    """A file in memory, which the gateway inherits.

    Attributes:
        descriptor: The descriptor that the gateway inherits.
    """

    def __init__(self) -> None:
        """Makes the file.

        Raises:
            CannotStart: The system has no room for it.
        """
        try:
            self.descriptor = os.memfd_create("gateway.address")
        except OSError as error:
            raise CannotStart(f"the gateway cannot tell its address, for lack of a file in memory: {error.strerror}") from None

    @property
    def options(self) -> list[str]:
        """The options of the gateway that make it write the address."""
        return ["--ready-file", f"/dev/fd/{self.descriptor}"]

    def address(self) -> str | None:
        """Returns the address; None until the gateway has written it.

        Raises:
            OSError: It cannot be read.
        """
        written = os.pread(self.descriptor, 1 << 10, 0)
        return written.decode().strip() if written.endswith(b"\n") else None

    def close(self) -> None:
        """Gives the memory back."""
        os.close(self.descriptor)
