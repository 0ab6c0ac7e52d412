"""A size or a duration means the same in every part of Headrace, and what the page says."""

from datetime import timedelta
from pathlib import Path

import pytest
from tests.contract.test_units import SUFFIXES, UNITS
from tests.docs.pages import codes, table

from headrace.configuration import Flag
from headrace.engine.source.options import Defaults, parse
from headrace.gateway import load_config


@pytest.mark.parametrize(("text", "size"), [("64mb", 67_108_864), ("64MB", 67_108_864), ("2m", 2**21), ("4096kB", 2**22)])
def test_a_size_is_the_same_number_in_engine_and_gateway(tmp_path: Path, text: str, size: int) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(f'limits.buffer_bytes = "{text}"\nlimits.max_frame_bytes = 2048\n')

    options = parse({"stream": "orders/*", "maxBytesPerTrigger": text, "inlineBytes": text}, Defaults())
    in_file = load_config(path)
    as_flag = load_config(None, {("limits", "max_frame_bytes"): Flag("--max-frame-bytes", text)})

    assert (options.max_bytes, options.inline_bytes) == (size, size)
    assert in_file.limits.buffer_bytes == as_flag.limits.max_frame_bytes == size


def test_units_are_those_that_the_page_lists() -> None:
    rows = table("docs/write/spark.md", "Sizes and durations")
    start_of_durations = next(place for place, row in enumerate(rows) if row[0] == "duration")
    sizes = {unit: int(each) for _, units, each in rows[:start_of_durations] for unit in units_of(units)}
    seconds = {unit: timedelta(seconds=float(each)) for _, units, each in rows[start_of_durations:] for unit in units_of(units)}
    assert sizes == SUFFIXES
    assert seconds == UNITS


def units_of(cell: str) -> list[str]:
    return [*codes(cell), *([""] if cell.startswith("none") else [])]
