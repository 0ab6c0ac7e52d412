"""The description of a program, which steps carry to the workers."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from shlex import join

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError, ProgramError
from headrace.pipelines.time.time import span

MAX_NAME_BYTES = 255
"""The maximum length of the name of a field, in bytes."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that processes the messages of one step.

    Attributes:
        pipeline: The name of the pipeline.
        step: The name of the step.
        command: The command and its arguments. It runs in the folder that has `files`.
        fields: The fields of states.
        files: The files and folders that the program needs, relative to the application's folder.
        timeout_s: The time for one response, in seconds.
    """

    pipeline: str
    step: str
    command: tuple[str, ...]
    fields: tuple[str, ...]
    files: tuple[str, ...]
    timeout_s: float

    @property
    def where(self) -> str:
        """The step and the command, for errors."""
        return f"pipeline {self.pipeline}, step {self.step}: the program `{join(self.command)}`"

    def check_files(self, folder: Path | None) -> None:
        """Checks that a folder has the files.

        Raises:
            ProgramError: A file does not exist, or the program cannot be executed.
        """
        if folder is None and self.files:
            raise ProgramError(
                f"{self.where} needs {', '.join(self.files)} in the folder of the application, which is not known; pass the "
                "command with an absolute path that exists on every machine, or start the application with folder="
            )
        for file in self.files:
            assert folder is not None
            if not (folder / file).exists():
                raise ProgramError(f"{self.where} needs {file}, which is not in {folder}; build the program first")
        if self.command[0] in self.files and not os.access(Path(folder or ".", self.command[0]), os.X_OK):
            raise ProgramError(f"{self.where} is not executable; run: chmod +x {self.command[0]}")


def program_of(
    pipeline: str,
    step: str,
    command: Collection[str] | str,
    state: Collection[str] | str,
    files: Collection[str] | str,
    timeout: timedelta | str,
) -> Program:
    """Validates the description of a program.

    Raises:
        GraphError: A part of it is invalid.
    """
    where = f"pipeline {pipeline}, step {step}"
    words, fields = check.texts(where, "command", command), check.texts(where, "state", state)
    named = check.texts(where, "files", files)
    if not words or not words[0]:
        raise GraphError(f"{where}: a program needs a command, such as ['./votes']")
    if not fields:
        raise GraphError(f"{where}: a program needs the names of the fields of its states, such as state=['count']")
    for field in fields:
        if not 1 <= len(field.encode()) <= MAX_NAME_BYTES or field.startswith("__") or fields.count(field) > 1:
            raise GraphError(
                f"{where}: state: {check.excerpt(field)} cannot be a field; fields have 1 to {MAX_NAME_BYTES} bytes, do not "
                "begin with '__', and have different names"
            )
    first = Path(words[0])
    if "/" in words[0] and not first.is_absolute() and words[0] not in named:
        named = (words[0], *named)
    for file in named:
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise GraphError(f"{where}: the file {file} must be below the folder of the application; give its path from there")
    return Program(pipeline, step, words, fields, named, span(timeout, f"{where}: timeout") / 1_000_000)
