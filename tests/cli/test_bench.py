"""`headrace bench`: its output, for programs and for people. The figures of so short a run mean nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from scripts.brokers import Kafka, Nats, RabbitMQ
from scripts.generate_performance_page import RUNS
from tests.cli.json_shape import result_of

from headrace.laboratory.bench.connectors.run import PARTS as OF_CONNECTORS
from headrace.laboratory.bench.latency.hops import TEXTS
from headrace.laboratory.bench.latency.run import PARTS as OF_LATENCY
from headrace.laboratory.bench.pipelines.run import PARTS
from headrace.laboratory.bench.profile.run import CASES
from headrace.laboratory.commands.bench_parts import (
    CONNECTORS_PARTS,
    LATENCY_PARTS,
    PIPELINES_PARTS,
    PROFILE_PARTS,
)

BENCH = (sys.executable, "-m", "headrace.cli", "bench")


@pytest.mark.in_turn(1, 6)
def test_a_quick_run_prints_its_figures_as_json() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "core", "--only", "latency", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    document = result_of(done.stdout)
    assert set(document) == {"figures", "conditions"}
    assert [f["name"] for f in document["figures"]] == ["ack_latency_p50", "ack_latency_p99"]
    for figure in document["figures"]:
        assert set(figure) == {"name", "value", "unit", "baseline", "ratio", "target", "met"}
        assert figure["value"] > 0
        assert figure["unit"] == "ms"
    assert document["conditions"]["cores"] >= 1
    assert "latency ..." in done.stderr


@pytest.mark.in_turn(5, 6)
def test_a_quick_run_compares_the_latency_of_an_application_with_spark_alone(tmp_path: Path) -> None:
    plot = tmp_path / "latency.svg"
    command = [*BENCH, "latency", "--only", "stateful", "--quick", "--json", "--plot", str(plot)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=360, check=False)
    assert done.returncode == 0, done.stderr
    document = result_of(done.stdout)
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert list(figures) == ["stateful_p50", "stateful_p99", "ack_p50", "floor_p50", "floor_p50_itself", "stateful_over_floor"]
    stateful, floor = figures["stateful_p50"], figures["floor_p50"]
    assert stateful["baseline"] == floor["value"] > 0
    assert figures["stateful_over_floor"]["value"] == stateful["ratio"] == pytest.approx(stateful["value"] / floor["value"])
    assert figures["stateful_p99"]["value"] >= stateful["value"] > 0
    assert [figure["unit"] for figure in figures.values()] == [*["ms"] * 5, "times"]
    assert document["conditions"]["load_average_before"] >= 0
    assert ">stateful<" in plot.read_text()


@pytest.mark.in_turn(6, 6)
def test_a_quick_run_in_real_time_has_the_time_of_each_hop_and_of_a_burst() -> None:
    command = [*BENCH, "latency", "--only", "real-time", "--only", "real-time-rates", "--only", "real-time-workers"]
    done = subprocess.run([*command, "--quick", "--json"], capture_output=True, text=True, timeout=360, check=False)
    assert done.returncode == 0, done.stderr
    figures = {figure["name"]: figure for figure in result_of(done.stdout)["figures"]}
    quantiles = ["p50", "p99", "p999"]
    assert [name for name in figures if "hop" not in name and "processor" not in name] == [
        *(f"real_time_{each}" for each in quantiles),
        *(f"real_time_1000_{each}" for each in quantiles),
        *(f"real_time_burst_{each}" for each in quantiles),
        "real_time_burst_over_s",
        "real_time_workers",
    ]
    assert [name for name in figures if name.startswith("real_time_hop_") and name.endswith("_p50")] == [
        f"real_time_hop_{hop}_p50" for hop in TEXTS
    ]
    roles = [name for name in figures if name.startswith("real_time_processor_")]
    assert roles == [f"real_time_processor_{role}" for role in ("driver", "gateway", "sink", "source")]
    assert min(figures[role]["value"] for role in roles) > 0
    assert "the SDK cuts its frame (linger)" in done.stderr


@pytest.mark.in_turn(1, 6)
@pytest.mark.timeout(600)
def test_a_quick_run_reads_the_metrics_of_a_gateway_and_names_a_fault() -> None:
    done = subprocess.run([*BENCH, "operate", "--quick", "--json"], capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    figures = {figure["name"]: figure for figure in result_of(done.stdout)["figures"]}
    assert list(figures) == [
        "metrics_overhead",
        "metrics_overhead_gateway_cpu",
        "scrape_100_streams",
        "scrape_100_streams_cpu",
        "series_100_streams",
        "traces_overhead",
        "traces_overhead_gateway_cpu",
        "console_update_ms_100_streams",
        "names_paused_pipeline_s",
        "clears_paused_pipeline_s",
        "faults_named",
        "readyz_names_cause_s",
        "readyz_clears_s",
        "false_alarms",
        "console_overhead",
        "console_overhead_gateway_cpu",
    ]
    assert figures["readyz_names_cause_s"]["value"] == figures["names_paused_pipeline_s"]["value"] > 0
    assert figures["readyz_clears_s"]["target"] == "<= 10"
    assert figures["console_overhead"]["ratio"] > 0
    assert figures["console_update_ms_100_streams"]["value"] > 0
    assert figures["traces_overhead"]["ratio"] > 0
    assert figures["metrics_overhead"]["ratio"] > 0
    assert figures["scrape_100_streams"]["value"] > 0
    # Four for each stream, five for each connector, of which there are as many here, and the gateway's own.
    assert 900 < figures["series_100_streams"]["value"] < 1_100


@pytest.mark.in_turn(2, 6)
def test_what_a_gateway_needs_for_sessions_streams_and_bytes_is_measured_if_it_is_named() -> None:
    command = [*BENCH, "operate", "--only", "capacity", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    figures = {figure["name"]: figure["value"] for figure in result_of(done.stdout)["figures"]}
    assert list(figures) == [
        "gateway_memory_idle",
        "memory_of_a_session",
        "memory_of_a_stream",
        "gateway_descriptors_idle",
        "descriptors_of_a_session",
        "buffered",
        "memory_of_a_buffered_byte",
    ]
    assert 1 <= figures["descriptors_of_a_session"] < 3
    assert figures["buffered"] > 1
    # The memory varies by more than a few sessions take: the page states what many take.
    documented = {figure["name"]: figure["value"] for figure in json.loads((RUNS / "capacity.json").read_text())["figures"]}
    for name in ("gateway_memory_idle", "gateway_descriptors_idle", "memory_of_a_buffered_byte"):
        assert documented[name] / 3 < figures[name] < documented[name] * 3, name


@pytest.mark.in_turn(5, 6)
def test_a_profile_has_the_time_of_each_part_for_a_message_and_a_frame(tmp_path: Path) -> None:
    command = [*BENCH, "profile", "--only", "small_frames", "--quick", "--json", "--flame", str(tmp_path / "flames")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    document = result_of(done.stdout)
    case = document["conditions"]["profile"]["small_frames"]
    assert 9 <= case["messages_of_a_frame"] <= 10
    parts = {part["part"]: part for part in case["parts"]}
    assert {"SDK", "gateway in", "gateway, gRPC and loop", "fetch", "Spark's tasks"} <= parts.keys()
    assert sum(part["share"] for part in parts.values()) == pytest.approx(1, abs=0.01)
    for part in parts.values():
        assert part["us_per_frame"] == pytest.approx(part["us_per_message"] * case["messages_of_a_frame"], rel=0.05, abs=0.05)
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert figures["small_frames_us"]["value"] > 0
    assert "<title>" in (tmp_path / "flames" / "small_frames.svg").read_text()


@pytest.mark.parametrize("plot", ["latency.png", "absent/latency.svg"])
def test_a_plot_that_cannot_be_written_is_refused_at_once(plot: str, tmp_path: Path) -> None:
    command = [*BENCH, "latency", "--plot", str(tmp_path / plot)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "*.svg" in done.stderr


def is_gateway(process: psutil.Process) -> bool:
    """Whether a process, which may have ended, is a gateway."""
    with suppress(psutil.NoSuchProcess):
        return "gateway" in process.cmdline()
    return False


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder with a short path: Spark's sockets are below it."""
    folder = Path(tempfile.mkdtemp(prefix="t"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.in_turn(2, 6)
def test_a_benchmark_that_is_told_to_stop_leaves_nothing_behind(folder: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "core", "--only", "sessions", "--quick"]
    environ = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        deadline = time.monotonic() + 100
        started: list[psutil.Process] = []
        while not any(is_gateway(child) for child in started):
            assert bench.poll() is None
            assert time.monotonic() < deadline, started
            started = psutil.Process(bench.pid).children(recursive=True)
        (own,) = folder.iterdir()
        (jvm,) = (child for child in started if child.is_running() and "java" in child.name())
        assert f"-Djava.io.tmpdir={own}" in jvm.cmdline()
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 128 + signal.SIGTERM
    gone, alive = psutil.wait_procs(started, timeout=120)
    assert not alive, gone
    assert list(folder.iterdir()) == []


@pytest.mark.in_turn(4, 6)
def test_a_benchmark_whose_jvm_is_killed_names_that_and_shows_no_stack_trace_of_its_own(folder: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "core", "--only", "sessions", "--quick"]
    environ = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as bench:
        deadline = time.monotonic() + 300
        started: list[psutil.Process] = []
        while not any(is_gateway(child) for child in started):
            assert bench.poll() is None
            assert time.monotonic() < deadline, started
            started = psutil.Process(bench.pid).children(recursive=True)
        (jvm,) = (child for child in started if child.is_running() and "java" in child.name())
        jvm.kill()
        _, errors = bench.communicate(timeout=300)
    assert bench.returncode == 1, errors
    assert "Spark's JVM has ended (killed by SIGKILL) during the benchmark" in errors
    # Py4J logs errors of its own, and Spark's workers, which lose the JVM, too.
    assert "headrace/laboratory/" not in errors


@pytest.mark.in_turn(6, 6)
def test_pipelines_give_the_same_results_as_a_plain_loop_or_there_are_no_figures() -> None:
    command = [
        sys.executable,
        "-m",
        "headrace.cli",
        "bench",
        "pipelines",
        "--only",
        "market_spread_spark_part",
        "--quick",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=360, check=True)
    document = result_of(done.stdout)
    rate, itself, alone = document["figures"]
    names = ["market_spread_spark_part", "market_spread_spark_part_itself", "market_spread_functions_alone"]
    assert [figure["name"] for figure in (rate, itself, alone)] == names
    assert rate["unit"] == "messages/s"
    assert rate["value"] > 0
    assert rate["baseline"] == pytest.approx(1e6 / alone["value"])
    assert document["conditions"]["quick"] is True


@pytest.mark.in_turn(6, 6)
def test_connectors_bring_all_messages_of_real_brokers_or_there_are_no_figures(
    rabbitmq: RabbitMQ, nats: Nats, kafka: Kafka
) -> None:
    librdkafka = ("kafka_librdkafka_drain", "kafka_librdkafka_sink") if find_spec("confluent_kafka") is not None else ()
    parts = ("rabbitmq_drain", "nats_drain", "kafka_drain", "kafka_sink", *librdkafka)
    only = [argument for part in parts for argument in ("--only", part)]
    brokers = ["--rabbitmq", rabbitmq.url, "--nats", nats.url, "--kafka", kafka.url]
    command = [sys.executable, "-m", "headrace.cli", "bench", "connectors", *only, *brokers, "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=360, check=False)
    assert done.returncode == 0, done.stderr
    document = result_of(done.stdout)
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert list(figures) == [
        *("rabbitmq_drain", "rabbitmq_memory", "nats_drain", "nats_memory", "kafka_drain", "kafka_memory", "kafka_sink"),
        *(("kafka_librdkafka_drain", "kafka_librdkafka_memory", "kafka_librdkafka_sink") if librdkafka else ()),
    ]
    for name in ("rabbitmq", "nats", "kafka", *(("kafka_librdkafka",) if librdkafka else ())):
        drain, memory = figures[f"{name}_drain"], figures[f"{name}_memory"]
        assert (drain["unit"], memory["unit"]) == ("messages/s", "MB")
        assert drain["ratio"] == pytest.approx(drain["value"] / drain["baseline"])
        assert min(memory["value"], memory["baseline"]) > 1
    for name in ("kafka_sink", *librdkafka[1:]):
        assert figures[name]["ratio"] == pytest.approx(figures[name]["value"] / figures[name]["baseline"])
    assert "pika" in document["conditions"]["clients"]
    assert rabbitmq.ctl("list_queues", "name").count("headrace-bench") == 0


def test_brokers_that_are_not_there_are_named_with_what_to_do() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "connectors", "--only", "nats_drain", "--nats", "127.0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "nats://" in done.stderr


def test_a_client_that_is_not_installed_is_named_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\nfound = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'confluent_kafka' else found(name, *rest)\n"
    )
    command = [sys.executable, "-m", "headrace.cli", "bench", "connectors", "--only", "kafka_librdkafka_sink"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [*command, "--kafka", "127.0.0.1:1"], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)
    assert "pip install 'headrace-connectors[kafka-librdkafka]'" in done.stderr


def test_the_command_knows_the_parts_that_there_are() -> None:
    assert tuple(OF_LATENCY) == LATENCY_PARTS
    assert tuple(PARTS) == PIPELINES_PARTS
    assert tuple(OF_CONNECTORS) == CONNECTORS_PARTS
    assert tuple(CASES) == PROFILE_PARTS


def test_an_unknown_part_is_refused_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "core", "--only", "speed"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert "throughput" in done.stderr
