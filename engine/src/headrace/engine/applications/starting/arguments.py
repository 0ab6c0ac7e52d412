"""The arguments with which an application is started."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from headrace.contract.units import UnitError, parse_duration, parse_size
from headrace.engine._errors import OptionError
from headrace.engine.applications.starting.start_arguments import (
    check_options,
    check_path,
    check_pipeline,
    check_text,
)
from headrace.engine.sink.options import NAMES as SINK_NAMES
from headrace.engine.source.options import NAMES as SOURCE_NAMES
from headrace.pipelines import Pipeline


def check_arguments(
    pipeline: Pipeline,
    checkpoint: str | Path,
    options: Mapping[str, str] | None,
    trigger_interval: str | None,
    worker_memory: str,
    folder: str | Path | None,
) -> None:
    """Checks the types of arguments.

    Raises:
        OptionError: One has another type.
    """
    check_pipeline(pipeline)
    check_path("checkpoint", checkpoint)
    if options is not None:
        check_options(options)
    if trigger_interval is not None:
        check_text("trigger_interval", trigger_interval, "5s")
    check_text("worker_memory", worker_memory, "500mb")
    if folder is not None:
        check_path("folder", folder)


def interval_s_of(interval: str | None) -> float:
    """The time between the starts of two micro-batches, in seconds; 0 to start one as soon as the one before is committed.

    Raises:
        OptionError: The interval is invalid.
    """
    if interval is None:
        return 0.0
    try:
        return parse_duration(interval, unit_required=True) / timedelta(seconds=1)
    except UnitError as error:
        raise OptionError(f"trigger_interval: {error}") from None


def worker_bytes_of(memory: str) -> int:
    """The memory for states in each Python worker, in bytes.

    Raises:
        OptionError: The text is not a size.
    """
    try:
        return parse_size(memory)
    except UnitError as error:
        raise OptionError(f"worker_memory: {error}") from None


def divided_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the source, including unknown ones, which it rejects, and the options of the sink."""
    only_sink = {name.lower() for name in SINK_NAMES} - {name.lower() for name in SOURCE_NAMES}
    for_source = {name: value for name, value in options.items() if name.lower() not in only_sink}
    sink = {name.lower() for name in SINK_NAMES}
    return for_source, {name: value for name, value in options.items() if name.lower() in sink}
