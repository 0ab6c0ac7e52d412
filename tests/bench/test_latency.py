"""How `headrace bench latency` computes its figures, and draws them."""

import importlib
import json
import subprocess
import sys
from functools import reduce
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.laboratory.bench.latency.hops import HOPS, TEXTS, Hop, noted, table
from headrace.laboratory.bench.latency.measure import KEYS, until_acknowledged, until_visible
from headrace.laboratory.bench.latency.plot import svg
from headrace.laboratory.bench.output import LINE_BYTES, Output
from headrace.laboratory.bench.schedule import BURST_S, BURST_TIMES, Schedule

_SVG = "{http://www.w3.org/2000/svg}"


def line(stamp: float) -> str:
    """A line of a stamped message."""
    return f"{stamp:<{LINE_BYTES - 1}.6f}\n"


def test_a_message_counts_from_when_it_was_due() -> None:
    seen = np.array([(0.0, 100.2), (100.5, 100.9), (101.5, 101.75), (102.0, 102.5)])
    assert until_visible(seen, 101.0).tolist() == [0.25, 0.5]


def test_a_message_is_acknowledged_by_the_first_position_that_includes_it() -> None:
    moments = [(99.0, KEYS), (100.5, KEYS + 1), (102.0, KEYS + 3)]
    # At two messages per second, they are due at 100.5, 101 and 101.5.
    assert until_acknowledged(moments, begun=100.0, schedule=Schedule(2, 1.5)).tolist() == [0.0, 1.0, 0.5]


def test_every_message_is_seen_once_while_the_file_grows(tmp_path: Path) -> None:
    file = tmp_path / "bench-000000.lines"
    file.write_text(line(1.0) + line(2.0)[:20])
    output = Output(tmp_path)
    first = output.sightings(1, timeout_s=60)
    file.write_text(line(1.0) + line(2.0) + line(3.0))
    rest = output.sightings(2, timeout_s=60)
    assert [first[:, 0].tolist(), rest[:, 0].tolist()] == [[1.0], [2.0, 3.0]]
    assert first[:, 1].max() <= rest[:, 1].min()


def test_a_message_that_is_not_visible_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bench-000000.lines").write_text(line(1.0))
    command = ["-m", "headrace.laboratory.bench.latency.observer", str(tmp_path), "2", "0.1", str(tmp_path / "seen.npy")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert "1 of 2 messages were visible" in done.stderr
    assert not (tmp_path / "seen.npy").exists()


def test_a_plot_has_a_line_for_each_series_up_to_the_slowest_messages() -> None:
    fast = [0.001 * n for n in range(1, 1001)]
    root = ElementTree.fromstring(svg({"fast": fast, "a < b": [0.2, 0.2]}))
    first, second = (polyline.attrib["points"].split() for polyline in root.iter(f"{_SVG}polyline"))
    xs, ys = ([float(point.split(",")[axis]) for point in first] for axis in (0, 1))
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)
    assert {point.split(",")[1] for point in second} == {second[0].split(",")[1]}
    texts = [text.text for text in root.iter(f"{_SVG}text")]
    assert [text for text in texts if text in ("fast", "a < b")] == ["fast", "a < b"]
    assert {"50", "90", "99", "99.9", "1", "10", "100", "1,000"} <= set(texts)


@pytest.mark.parametrize("latencies", [[0.1], [0.1, 0.1], [0.0, 0.0], [0.0, 30.0]])
def test_any_latencies_can_be_drawn(latencies: list[float]) -> None:
    root = ElementTree.fromstring(svg({"few": latencies}))
    assert len(list(root.iter(f"{_SVG}polyline"))) == 1


@given(st.sampled_from([7.0, 100.0, 1000.0]), st.integers(1, 10), st.none() | st.integers(0, 9))
def test_a_schedule_has_each_message_due_when_it_is_counted(rate: float, seconds: int, burst_at: int | None) -> None:
    schedule = Schedule(rate, seconds, burst_at)
    numbers = np.arange(1, schedule.total + 1)
    moments = schedule.moments(numbers)
    assert (np.diff(moments) > 0).all()
    assert moments[-1] <= seconds + 1e-6
    assert all(schedule.due(moment + 1e-6) == number for number, moment in zip(numbers, moments, strict=True))
    of_burst = 0.0 if burst_at is None else min(max(seconds - burst_at, 0.0), BURST_S)
    assert schedule.total == int(rate * (seconds + (BURST_TIMES - 1) * of_burst) + 1e-6)


@pytest.mark.parametrize("hop", HOPS, ids=lambda hop: hop.name)
def test_each_hop_is_a_function_that_exists(hop: Hop) -> None:
    assert callable(reduce(getattr, hop.function.split("."), importlib.import_module(hop.module)))
    assert [*(each.name for each in HOPS), "visible"] == list(TEXTS)


def test_hops_add_up_to_the_latency_of_each_message(tmp_path: Path) -> None:
    # Each hop takes a second longer than the one before; messages pass two at a time.
    with noted() as notes:
        for role in {hop.role for hop in HOPS}:
            passed = {
                hop.name: [(100.0 + at, 2), (101.0 + at, 2 if hop.adds else 4)] for at, hop in enumerate(HOPS) if hop.role == role
            }
            (notes.folder / f"{role}-1.json").write_text(json.dumps({"hops": passed, "processor_s": [1.0, 3.0]}))
        numbers = np.arange(1, 5)
        due, visible = np.array([99.0, 99.0, 100.0, 100.0]), np.array([110.0, 110.0, 111.0, 112.0])
        seconds = notes.seconds(due, visible, numbers)
    assert {name: values for name, values in seconds.items() if name != "visible"} == {hop.name: [1.0] * 4 for hop in HOPS}
    assert seconds["visible"] == [1.0, 1.0, 1.0, 2.0]
    assert len(table(seconds)) == len(TEXTS) + 1


def test_a_process_that_notes_nothing_is_named(tmp_path: Path) -> None:
    with noted() as notes, pytest.raises(RuntimeError, match="no message has passed the hop read"):
        notes.seconds(np.array([1.0]), np.array([2.0]), np.array([1]))
