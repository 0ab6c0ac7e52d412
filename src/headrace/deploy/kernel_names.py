"""Names that the kernel keeps for as long as a process holds them: they need no disk, and nobody can remove them."""

import errno
import hashlib
import os
import socket
import struct
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")


class NameTaken(Exception):
    """Another process of this user holds the name.

    Attributes:
        pid: The process that took it, which may have passed it on; 0 if that cannot be seen.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid} holds the name")
        self.pid = pid


def take_name(deployment: Path, what: str) -> socket.socket:
    """Takes a name of a deployment on this machine. It is free again once the last process has ended that inherited it.

    A deployment is identified by its folder, whatever the path to that is, and by the name of its file, which may be replaced.

    Args:
        deployment: The file of the deployment.
        what: The thing named.

    Returns:
        What holds the name. Nobody connects to it but for asking who holds it.

    Raises:
        NameTaken: Another process holds it.
        OSError: The kernel permits no such name here, or it is held by another user, who must not decide what runs.
    """
    folder = os.stat(deployment.parent)
    key = f"{folder.st_dev} {folder.st_ino} {deployment.name}".encode(errors="surrogateescape")
    address = f"\0headrace/{what}/{hashlib.sha256(key).hexdigest()[:32]}"
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        holder.bind(address)
        holder.listen(1)
    except OSError as error:
        holder.close()
        if error.errno != errno.EADDRINUSE:
            raise
        pid, uid = _holder_of(address)
        if uid not in (None, 0, os.getuid()):
            raise PermissionError(errno.EPERM, f"user {uid} holds the name of this deployment, as process {pid}") from None
        raise NameTaken(pid) from None
    return holder


def _holder_of(address: str) -> tuple[int, int | None]:
    """Returns the process and the user that took a name, as the kernel says; 0 and None if it does not say."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(address)
            found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return 0, None
    pid, uid, _ = _CREDENTIALS.unpack(found)
    return pid, uid
