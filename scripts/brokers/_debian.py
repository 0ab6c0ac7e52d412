"""Installs Debian packages without starting their services, since the scripts run the brokers themselves."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from scripts.brokers._broker import BrokerFailed

# Debian's scripts call this program, if it exists, to ask whether a service may start; exit code 101 forbids it.
_POLICY = Path("/usr/sbin/policy-rc.d")
# An upgrade in the background, or somebody at another terminal, may use the packages: apt-get waits for them.
_PATIENT = ("-o", "DPkg::Lock::Timeout=600")
_one_at_a_time = Lock()
_FORBID = "#!/bin/sh\nexit 101\n"


def install_package(package: str) -> None:
    """Installs a package and its dependencies, without recommended packages.

    Raises:
        BrokerFailed: This is not Debian, the user may not install packages, or the package does not exist.
    """
    if shutil.which("apt-get") is None:
        raise BrokerFailed(f"this machine has no apt-get; install {package} with its own package manager, or use compose.yaml")
    install = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", *_PATIENT, "install", "-y", "-qq", "--no-install-recommends")
    with _one_at_a_time, _alone_here(), _no_services():
        print(f"brokers: installs the Debian package {package}", flush=True)
        _as_root("apt-get", *_PATIENT, "update", "-qq")
        _as_root(*install, package)
    if Path("/run/systemd/system").exists():
        print(f"brokers: {package} has a service of its own, which starts with the machine; systemctl disable keeps it from that")


@contextmanager
def _alone_here() -> Iterator[None]:
    """Waits until no other process installs packages this way: `apt-get update` never waits for another one."""
    # A folder of the system, which every user can open; a file would belong to one of them.
    descriptor = os.open(_POLICY.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _no_services() -> Iterator[None]:
    """Keeps packages from starting services, until the block ends."""
    if _POLICY.exists():
        yield
        return
    _as_root("install", "-m", "755", "/dev/stdin", str(_POLICY), text=_FORBID)
    try:
        yield
    finally:
        with suppress(BrokerFailed):
            _as_root("rm", str(_POLICY))


def _as_root(*command: str, text: str = "") -> None:
    full = list(command) if os.geteuid() == 0 else ["sudo", *command]
    done = subprocess.run(full, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-10:])
        raise BrokerFailed(f"{' '.join(full)} failed with exit code {done.returncode}; run it by hand:\n{end}")
