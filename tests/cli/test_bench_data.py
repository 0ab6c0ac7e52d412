"""`headrace bench data`: its output. The figures of so short a run mean nothing."""

import subprocess
import sys

import pytest
from tests.cli.json_shape import result_of

from headrace.laboratory.bench.data.run import PARTS
from headrace.laboratory.commands.bench_parts import DATA_PARTS

DECODED = ("json_decode", "avro_decode", "avro_objects", "avro_class_columns")


@pytest.mark.in_turn(4, 6)
def test_a_quick_run_compares_lakes_with_the_file_sink_of_spark() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "data", "--quick", "--json", "--only", "lake_delta"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    figures = {figure["name"]: figure for figure in result_of(done.stdout)["figures"]}
    assert list(figures) == ["lake_delta.messages_cpu_s", "lake_delta.ratio"]
    assert figures["lake_delta.ratio"]["value"] == figures["lake_delta.messages_cpu_s"]["ratio"] > 0


@pytest.mark.in_turn(3, 6)
def test_a_quick_run_compares_histories_with_what_spark_reads_itself() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "data", "--quick", "--json", "--only", "history"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    figures = {figure["name"]: figure for figure in result_of(done.stdout)["figures"]}
    assert list(figures) == ["history.messages_cpu_s", "history.ratio"]
    assert figures["history.ratio"]["value"] == figures["history.messages_cpu_s"]["ratio"] > 0


def test_a_quick_run_compares_states_beyond_memory_with_states_in_it() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "data", "--quick", "--json", "--only", "spill", "--keys", "3000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    figures = {figure["name"]: figure for figure in result_of(done.stdout)["figures"]}
    assert list(figures) == ["spill.messages_cpu_s", "spill.created_cpu_s", "spill.resident_mib"]
    assert all(figure["ratio"] > 0 for figure in figures.values())


def test_a_quick_run_tells_in_which_time_the_state_of_a_key_is_found() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "data", "--quick", "--json", "--only", "state_query"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    figures = {figure["name"]: figure for figure in result_of(done.stdout)["figures"]}
    assert list(figures) == ["state_query.ms", "state_query.ms_itself"]
    assert figures["state_query.ms"]["baseline"] > figures["state_query.ms"]["value"] > 0


def test_the_command_names_the_parts_that_there_are() -> None:
    assert tuple(PARTS) == DATA_PARTS


def test_a_quick_run_compares_columns_with_one_value_at_a_time() -> None:
    command = [sys.executable, "-m", "headrace.cli", "bench", "data", "--quick", "--json"]
    command += [word for part in DECODED for word in ("--only", part)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    document = result_of(done.stdout)
    figures = {figure["name"]: figure for figure in document["figures"]}
    assert list(figures) == [f"{part}.{name}" for part in DECODED for name in ("values_s", "ratio", "values_s_itself")]
    for part in DECODED:
        rate, ratio = figures[f"{part}.values_s"], figures[f"{part}.ratio"]
        assert ratio["value"] == rate["ratio"] > 0
        assert ratio["target"].startswith(">= ") == (part in ("json_decode", "avro_decode"))
    assert "json_decode ..." in done.stderr
