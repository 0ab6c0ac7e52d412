"""Another host, as far as the network goes: a network namespace of this machine, linked to it by a pair of virtual devices."""

import os
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class NoOtherHost(Exception):
    """This machine cannot have another network namespace; the message says why."""


@dataclass(frozen=True)
class OtherHost:
    """A host that shares this machine's files, and nothing of its network: 127.0.0.1 is another one there.

    Attributes:
        address: Its address.
        here: The address of this machine, as it is reached from there.
        enter: The words before a command line that is to run there.
        device: This machine's end of the cable.
    """

    address: str
    here: str
    enter: tuple[str, ...]
    device: str

    def command(self, *words: str) -> list[str]:
        """The command line that runs a command there; the process that it starts becomes the command's."""
        return [*self.enter, *words]

    def vanish(self) -> None:
        """Cuts the cable: nobody closes a connection, and nothing arrives."""
        subprocess.run(["ip", "link", "set", self.device, "down"], check=True)


@contextmanager
def other_host() -> Iterator[OtherHost]:
    """A host for the length of the block; its processes are its users' to end.

    Raises:
        NoOtherHost: this machine cannot have one.
    """
    if os.geteuid() != 0:
        raise NoOtherHost("network namespaces need root")
    if shutil.which("ip") is None:
        raise NoOtherHost("network namespaces need the command ip; run: apt-get install iproute2")
    # A network for tests between hosts (RFC 2544), so that it is nobody's.
    network = f"198.{random.choice((18, 19))}.{random.randrange(256)}"
    here, there = f"{network}.1", f"{network}.2"
    name = f"headrace-{os.getpid()}"
    # Names of devices have at most 15 characters.
    outer, inner = f"hr{os.getpid()}a", f"hr{os.getpid()}b"
    enter = ("ip", "netns", "exec", name)
    try:
        _ip("netns", "add", name)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", name)
        _ip("address", "add", f"{here}/24", "dev", outer)
        _ip("link", "set", outer, "up")
        for words in (("address", "add", f"{there}/24", "dev", inner), ("link", "set", inner, "up"), ("link", "set", "lo", "up")):
            _ip("-netns", name, *words)
        yield OtherHost(there, here, enter, outer)
    finally:
        # The pair of devices goes with its end in the namespace, once no process is there.
        subprocess.run(["ip", "link", "delete", outer], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    command: Sequence[str] = ["ip", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoOtherHost(f"{' '.join(command)}: {done.stderr.strip()}")
