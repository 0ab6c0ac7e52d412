"""Memory of real processes, measured and judged: one that leaks is found, and what comes and goes is not judged alone."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.laboratory.soak.memory import Memory, memory_of, named_processes
from headrace.laboratory.soak.series import HEAP, TOGETHER, Judged, Record
from headrace.laboratory.soak.slope import Verdict

LEAKS = "kept = []\nfor line in __import__('sys').stdin:\n    kept.append(bytearray(b'x' * 1_000_000)); print(flush=True)"
REUSES = "for line in __import__('sys').stdin:\n    kept = bytearray(b'x' * 1_000_000); print(flush=True)"
BOUND = 8.0


@contextmanager
def started(*programs: str) -> Iterator[list["subprocess.Popen[str]"]]:
    found = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        for program in programs
    ]
    try:
        yield found
    finally:
        for process in found:
            process.kill()
            process.communicate()


def turn(process: "subprocess.Popen[str]") -> None:
    """Has a program go round its loop once."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "\n"


def test_a_process_that_leaks_is_found_and_one_that_does_not_is_not() -> None:
    record = Record()
    with started(LEAKS, REUSES) as processes:
        leaders = {"leaks": processes[0], "reuses": processes[1]}
        # A turn stands for a second, however long it takes.
        for second in range(60):
            for process in processes:
                turn(process)
            named = named_processes((name, process.pid) for name, process in leaders.items())
            memories = {pid: (name, memory_of(pid)) for pid, name in named.items()}
            record.note(second, {pid: (name, memory) for pid, (name, memory) in memories.items() if memory is not None})
    found = by_name(record.judged(10, BOUND))
    assert found["leaks"].verdict is Verdict.GROWS
    assert found["leaks"].slope is not None
    assert 3000 < found["leaks"].slope.per_hour < 4500, "a MB a second"
    assert found["reuses"].verdict is not Verdict.GROWS
    assert found[TOGETHER].verdict is Verdict.GROWS


def test_memory_of_a_process_that_is_gone_is_none() -> None:
    with started(REUSES) as (process,):
        turn(process)
        memory = memory_of(process.pid)
        assert memory is not None
        assert 1 < memory.own <= memory.resident
    assert memory_of(process.pid) is None
    assert named_processes([("gone", process.pid)]) == {}


def test_children_are_found_by_the_session_of_their_leader() -> None:
    child = "import os; print(os.getpid(), flush=True); input()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with started(program) as (process,):
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        named = named_processes([("driver", process.pid)])
        assert (named[process.pid], set(named)) == ("driver", {process.pid, pid})
        assert named[pid].startswith("driver: python")


def test_a_process_is_called_what_it_is_now() -> None:
    record = Record()
    record.note(0, {1: ("driver: python", Memory(10, 10))})
    for second in range(1, 10):
        record.note(second, {1: ("driver's JVM", Memory(10, 10))})
    assert set(by_name(record.judged(0, BOUND))) == {"driver's JVM", HEAP, TOGETHER}


def test_processes_that_came_late_or_ended_are_too_short() -> None:
    record = Record()
    for second in range(100):
        memories = {1: ("stays", Memory(50, 50))}
        if second < 50:
            memories[2] = ("ends", Memory(50 + second, 50 + second))
        if second >= 80:
            memories[3] = ("comes", Memory(50 + second, 50 + second))
        record.note(second, memories)
    found = by_name(record.judged(20, BOUND))
    assert {name: found[name].verdict for name in ("stays", "ends", "comes")} == {
        "stays": Verdict.FLAT,
        "ends": Verdict.TOO_SHORT,
        "comes": Verdict.TOO_SHORT,
    }
    assert found[HEAP].verdict is Verdict.TOO_SHORT


def test_processes_that_become_more_are_found_together() -> None:
    record = Record()
    for second in range(100):
        record.note(second, {pid: ("worker", Memory(50, 50)) for pid in range(1 + second // 5)})
    judged = record.judged(20, BOUND)
    assert {one.verdict for one in judged if one.series.name == "worker"} <= {Verdict.FLAT, Verdict.TOO_SHORT}
    assert by_name(judged)[TOGETHER].verdict is Verdict.GROWS


def test_the_warm_up_does_not_count() -> None:
    record = Record()
    for second in range(100):
        record.note(second, {1: ("warms up", Memory(50, float(min(second, 40))))})
    assert by_name(record.judged(0, BOUND))["warms up"].verdict is not Verdict.FLAT
    assert by_name(record.judged(40, BOUND))["warms up"].verdict is Verdict.FLAT


def by_name(judged: list[Judged]) -> dict[str, Judged]:
    return {one.series.name: one for one in judged}
