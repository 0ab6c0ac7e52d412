"""How much a process keeps of the memory that it has freed."""

import platform
import subprocess
import sys

import pytest

ROUNDS = 50
# Buffers of several frames at once, which glibc would return to the system when they are freed.
PROGRAM = f"""
import resource
from headrace.machine.resources import keep_freed_memory

kept = keep_freed_memory()

def frames():
    return [b"x" * 2**20 for _ in range(4)]

frames(), frames()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    frames()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = ROUNDS * 4 * 2**20 // 4096


def run(environ: dict[str, str]) -> tuple[bool, int]:
    """Whether memory is kept, and how many pages the system has provided for the buffers of all rounds."""
    found = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True)
    kept, faults = found.stdout.split()
    return kept == "True", int(faults)


def test_buffers_of_frames_are_used_again() -> None:
    kept, faults = run({})
    assert kept == (platform.libc_ver()[0] == "glibc")
    assert not kept or faults < PAGES / 10


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_limits_of_the_environment_stay(name: str) -> None:
    value = "glibc.malloc.arena_max=2" if name == "GLIBC_TUNABLES" else "131072"
    kept, _ = run({name: value})
    assert not kept
