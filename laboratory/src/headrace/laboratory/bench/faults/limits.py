"""Signals to processes, and limits of what they may do."""

import signal

import psutil

from headrace.laboratory.bench.rig import Restartable
from headrace.processes import OwnedProcess


def send(number: signal.Signals, to: Restartable) -> None:
    """Sends a signal to a process and its children."""
    for process in _processes(to):
        process.send_signal(number)


def signal_driver(number: signal.Signals, driver: OwnedProcess) -> None:
    """Sends a signal to a driver and its JVM, and not to the planner, which renews the lease."""
    first = psutil.Process(driver.pid)
    for process in (first, *(one for one in first.children(recursive=True) if "java" in one.name())):
        process.send_signal(number)


def limit_files(most: int, of: Restartable) -> None:
    """Sets how large the files may be that a process writes, in bytes."""
    for process in _processes(of):
        process.rlimit(psutil.RLIMIT_FSIZE, (most, psutil.RLIM_INFINITY))


def limit_descriptors(of: Restartable, most: int | None) -> None:
    """Sets how many descriptors a process and its children may have; None for as many as the system permits."""
    for process in _processes(of):
        _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
        process.rlimit(psutil.RLIMIT_NOFILE, (hard if most is None else most, hard))


def leave_few_descriptors(process: psutil.Process, few: int) -> None:
    """Limits the descriptors of a process to what it has in use and a few more."""
    _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + few, hard))


def leave_descriptors(process: psutil.Process, most: int) -> None:
    """Limits the descriptors of a process, which may have more in use: the lowest numbers are taken first."""
    _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (most, hard))


def return_descriptors(process: psutil.Process) -> None:
    """Lets a process have as many descriptors as the system permits."""
    _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (hard, hard))


def _processes(of: Restartable) -> list[psutil.Process]:
    first = psutil.Process(of.process.pid)
    return [first, *first.children(recursive=True)]
