"""`headrace bench sdks`: its output, what it leaves out, and that it counts what arrives. Its figures mean nothing here."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scripts.generate_stubs import GO_ENVIRON as GO
from tests.cli.json_shape import result_of
from tests.sdk.go.toolchain import toolchain

from headrace.laboratory.bench.rig import gateway
from headrace.laboratory.bench.sdks import programs
from headrace.laboratory.bench.sdks.far_end import MessagesMissing, arrivals
from headrace.laboratory.bench.sdks.measure import program
from headrace.laboratory.bench.sdks.run import PARTS
from headrace.laboratory.commands.bench_parts import SDKS_PARTS

LOSES_ONE = """
from headrace.sdk import Message, Source, run

class Numbers(Source):
    name = "numbers-python"

    def read(self, partition, position):
        return (Message(b"m" * 61, sequence=number) for number in range(1, 101) if number != 50)

run(Numbers())
"""


def bench(*options: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "headrace.cli", "bench", "sdks", "--quick", "--json", *options]
    return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, timeout=280, check=False)


def figures(done: "subprocess.CompletedProcess[str]") -> tuple[dict[str, dict[str, Any]], Mapping[str, Any]]:
    """The figures by name, and the conditions."""
    assert done.returncode == 0, done.stderr
    document = result_of(done.stdout)
    return {figure["name"]: figure for figure in document["figures"]}, document["conditions"]


@pytest.mark.in_turn(3, 6)
def test_a_quick_run_measures_each_language_against_single_messages_in_python() -> None:
    toolchain("the benchmark of the SDKs")
    found, conditions = figures(bench("--only", "python", "--only", "go", **GO))
    assert list(found) == [
        *("python_batches", "python_batches_cpu", "python_batches_gateway"),
        *("python_messages", "python_messages_cpu", "python_messages_gateway", "python_rss"),
        *("go_messages", "go_messages_cpu", "go_messages_gateway", "go_rss", "python_ack_p50", "go_ack_p50"),
    ]
    python, go = found["python_messages"], found["go_messages"]
    assert set(go) == {"name", "value", "unit", "baseline", "ratio", "target", "met"}
    assert (python["baseline"], go["baseline"]) == (None, python["value"])
    assert go["ratio"] == pytest.approx(go["value"] / python["value"])
    assert "3" in go["target"]
    assert min(found[name]["value"] for name in ("python_messages", "go_messages", "python_ack_p50", "go_rss")) > 0
    assert [found[f"go_{name}"]["unit"] for name in ("messages", "messages_cpu", "messages_gateway", "ack_p50", "rss")] == [
        *("messages/s", "us", "cores", "ms", "MB")
    ]
    assert (conditions["left_out"], conditions["message_bytes"], conditions["quick"]) == ({}, 61, True)


@pytest.mark.in_turn(6, 6)
def test_a_language_without_its_tools_is_left_out_visibly(tmp_path: Path) -> None:
    done = bench("--only", "python", "--only", "rust", "--minutes", "0.1", PATH=str(tmp_path), CI="")
    found, conditions = figures(done)
    assert list(found) == ["python_growth", "python_rss"]
    assert found["python_growth"]["unit"] == "MB/hour"
    assert list(conditions["left_out"]) == ["rust"]
    assert "rust is left out: cargo not found on PATH: install Rust" in done.stderr


def test_a_language_without_its_tools_fails_in_ci(tmp_path: Path) -> None:
    done = bench("--only", "rust", PATH=str(tmp_path), CI="true")
    assert done.returncode == 3
    assert "install Rust" in done.stderr


def test_without_a_checkout_it_says_that_it_needs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "_ROOT", tmp_path)
    with pytest.raises(programs.ProgramsMissing, match="in a checkout"):
        programs.build(["go"], print)


def test_a_message_that_does_not_arrive_is_noticed() -> None:
    with (
        gateway() as running,
        program([sys.executable, "-c", LOSES_ONE], running.address),
        pytest.raises(MessagesMissing, match=r"messages \d+ to \d+ follow message"),
    ):
        for _ in arrivals(running.address, "numbers-python/0", 100):
            pass


def test_the_command_knows_the_parts_that_there_are() -> None:
    assert PARTS == SDKS_PARTS
