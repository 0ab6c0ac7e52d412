"""Checks of the arguments with which a program starts an application, before anything is started or written."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from headrace.engine._errors import OptionError
from headrace.engine.history.request import History
from headrace.pipelines import Pipeline


def check_pipeline(pipeline: object) -> None:
    """Checks the application.

    Raises:
        OptionError: It is not a pipeline.
    """
    if not isinstance(pipeline, Pipeline):
        raise OptionError(f"pipeline must be a Pipeline, not {shown(pipeline)}")


def check_path(name: str, path: object) -> None:
    """Checks the path of a folder.

    Raises:
        OptionError: It is neither text nor a Path, or empty.
    """
    if not isinstance(path, str | Path) or not str(path).strip():
        raise OptionError(f"{name} must be the path of a folder, not {shown(path)}")


def check_options(options: object) -> None:
    """Checks options of the source and the sink.

    Raises:
        OptionError: They are not texts by name.
    """
    if not isinstance(options, Mapping):
        raise OptionError(f"options must be texts by name, such as {{'gateway': '127.0.0.1:7433'}}, not {shown(options)}")
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise OptionError(f"option {name if isinstance(name, str) else shown(name)} must be text, not {shown(value)}")


def check_flags(**flags: object) -> None:
    """Checks flags, by name.

    Raises:
        OptionError: One is neither True nor False.
    """
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"{name} must be True or False, not {shown(flag)}")


def check_history(history: object) -> None:
    """Checks a history.

    Raises:
        OptionError: It is no `History`, or one of its fields has another type.
    """
    if not isinstance(history, History):
        raise OptionError(f"history must be a History, such as History(['/archive/orders']), not {shown(history)}")
    paths, columns, until = history.paths, history.columns, history.until
    if isinstance(paths, str) or not isinstance(paths, Sequence) or not all(isinstance(path, str) for path in paths):
        raise OptionError(f"history: paths must be a list of texts, not {shown(paths)}")
    if not isinstance(columns, Mapping) or not all(isinstance(text, str) for pair in columns.items() for text in pair):
        raise OptionError(f"history: columns must be texts by name, such as {{'event_time': 'at:ms'}}, not {shown(columns)}")
    if until is not None and (isinstance(until, bool) or not isinstance(until, int)):
        raise OptionError(f"history: until must be a whole number of microseconds since 1970, not {shown(until)}")
    check_flags(then_live=history.then_live)


def check_workers(workers: object) -> None:
    """Checks the number of processes in real-time mode.

    Raises:
        OptionError: It is not a positive number.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise OptionError(f"real_time_workers must be a positive number of processes, not {shown(workers)}")


def check_text(name: str, text: object, example: str) -> None:
    """Checks a duration or a size, which is text.

    Raises:
        OptionError: It is not text.
    """
    if not isinstance(text, str):
        raise OptionError(f"{name} must be text such as {example!r}, not {shown(text)}")


def check_step_names(**lists: Any) -> None:
    """Checks lists of the names of steps, by parameter.

    Raises:
        OptionError: One is a single text, or not a list of texts.
    """
    for name, steps in lists.items():
        if isinstance(steps, str) or not isinstance(steps, Collection) or not all(isinstance(step, str) for step in steps):
            raise OptionError(f"{name} must be a list of the names of steps, not {shown(steps)}")
