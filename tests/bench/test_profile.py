"""`headrace bench profile`: which part of a message's way uses the processor."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headrace.laboratory.bench.profile.flame import svg
from headrace.laboratory.bench.profile.jvm import Interval
from headrace.laboratory.bench.profile.parts import PARTS, part_of, seconds_by_part, seconds_by_stack
from headrace.laboratory.bench.profile.process import MODULE, role_of
from headrace.laboratory.bench.profile.run import tables
from headrace.laboratory.bench.profile.sampler import FOLDER

_USES_S = 1.0
PROGRAM = f"""
import threading, time

def busy():
    while time.thread_time() < {_USES_S}:
        sum(range(1000))

def idle():
    threading.Event().wait(0.1)

worker = threading.Thread(target=busy)
worker.start()
worker.join()
busy()
idle()
"""


def samples(folder: Path) -> list[Interval]:
    lines = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    return [Interval(line["at"], line["role"], line["stacks"]) for line in lines]


def used_by(intervals: list[Interval], name: str) -> float:
    return sum(used for one in intervals for stack, used in one.stacks.items() if name in stack)


def test_what_a_function_uses_is_counted_for_it_in_every_thread(tmp_path: Path) -> None:
    program, folder = tmp_path / "program.py", tmp_path / "samples"
    program.write_text(PROGRAM)
    folder.mkdir()
    environ = {**os.environ, FOLDER: str(folder)}
    subprocess.run([sys.executable, "-m", MODULE, str(program)], env=environ, check=True, timeout=300)
    found = samples(folder)
    # Twice as much, and at most what a thread uses until it sees that it has used enough.
    assert 1.6 * _USES_S < used_by(found, ":busy") < 3 * _USES_S
    assert used_by(found, ":idle") < 0.2 * _USES_S


def test_a_line_of_code_runs_without_being_sampled(tmp_path: Path) -> None:
    command = [sys.executable, "-m", MODULE, "-c", "print(1 + 1)"]
    environ = {**os.environ, FOLDER: str(tmp_path)}
    done = subprocess.run(command, env=environ, check=True, timeout=300, capture_output=True, text=True)
    assert (done.stdout, list(tmp_path.iterdir())) == ("2\n", [])


@pytest.mark.parametrize(
    ("arguments", "role"),
    [
        (["-m", "headrace.cli", "gateway", "--log-level", "error"], "gateway"),
        (["-m", "headrace.laboratory.bench.sources", "fast", "--gateway", "127.0.0.1:1"], "connector"),
        (["-m", "headrace.laboratory.bench.pipelines.connectors", "market", "--gateway", "127.0.0.1:1"], "connector"),
        (["-m", "headrace.cli", "connector", "run", "file-sink", "--path", "out"], "sink"),
        (["-m", "headrace.engine.spark.daemon", "pyspark.worker"], "worker"),
    ],
)
def test_a_process_is_known_by_its_arguments(arguments: list[str], role: str) -> None:
    assert role_of(arguments) == role


@pytest.mark.parametrize(
    ("role", "stack", "part"),
    [
        ("gateway", "uvloop:run;headrace.gateway_cli.gateway:_run", "gateway, gRPC and loop"),
        ("gateway", "uvloop:run;headrace.gateway.services.source:S._read;headrace.gateway.core.intake.intake:take", "gateway in"),
        ("gateway", "headrace.gateway.services.ending:serve;headrace.gateway.services.engine:EngineService.Fetch", "fetch"),
        ("gateway", "headrace.gateway.services.engine:EngineService.Plan;grpc.aio:write", "plan"),
        ("gateway", "headrace.gateway.observer:Recording.run", "gateway, other"),
        ("gateway", "native;grpc_global_tim", "gateway, gRPC and loop"),
        ("connector", "headrace.sdk._run:run;headrace.laboratory.bench.sources:Fast.read", "source"),
        ("connector", "headrace.sdk.sources.sender:send", "SDK"),
        ("worker", "pyspark.worker:main;headrace.engine.source.reader:read;headrace.engine.codec._decode:decode", "decode"),
        ("worker", "pyspark.worker:main;headrace.engine.applications.stages.plan:run;app:shout", "stages"),
        ("worker", "pyspark.worker:main", "Spark's Python"),
        ("sink", "headrace.sdk.sinks.driver:run", "sink"),
        ("jvm", "Executor task l", "Spark's tasks"),
        ("jvm", "dispatcher-even", "Spark's other threads"),
        ("driver", "profiler", "profiler"),
    ],
)
def test_the_innermost_function_with_a_part_decides(role: str, stack: str, part: str) -> None:
    assert part_of(role, stack) == part
    assert part in PARTS


INTERVALS = [
    Interval(1.0, "gateway", {"uvloop:run;headrace.gateway.core.intake.intake:take<frame>": 0.5, "uvloop:run": 0.25}),
    Interval(2.0, "jvm", {"Executor task l": 0.25}),
]


def test_no_time_is_lost_between_stacks_parts_and_the_flame_graph() -> None:
    assert seconds_by_part(INTERVALS) == {"gateway in": 0.5, "gateway, gRPC and loop": 0.25, "Spark's tasks": 0.25}
    stacks = seconds_by_stack(INTERVALS)
    assert sum(stacks.values()) == 1.0
    drawn = ET.fromstring(svg("a <title>", stacks, 1_000.0, "message"))
    boxes = {group[0].text: float(group[1].attrib["width"]) for group in drawn if group.tag.endswith("}g")}
    assert boxes["gateway in: 500.000 us/message, 50.0 %"] == pytest.approx(600, abs=1)
    assert any(text is not None and text.startswith("headrace.gateway.core.intake.intake:take<frame>") for text in boxes)


def test_a_table_has_each_part_for_a_message_and_for_a_frame() -> None:
    part = {"part": "SDK", "us_per_message": 1.5, "us_per_frame": 15.0, "share": 1.0, "again": 1.25}
    case = {"what": "frames", "messages": 100, "messages_of_a_frame": 10.0, "us_per_message": 1.5, "again": 1.25}
    (table,) = tables({"small_frames": {**case, "profiler": 0.05, "parts": [part]}})
    assert table.row_count == 2
