"""The model of a manifest."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be one line of text")
    return text


def _words(words: list[str]) -> list[str]:
    if not words or not words[0]:
        raise ValueError('must be a program and its arguments, such as ["./connector", "--verbose"]')
    if any("\0" in word for word in words):
        raise ValueError("must not contain the character U+0000")
    return words


def _value(value: Any) -> Any:
    """Permits what a parameter can be; its type is checked later."""
    if not all(isinstance(one, str | bool | int | float) for one in (value if isinstance(value, list) else [value])):
        raise ValueError("must be text, a number, true or false, or a list of these")
    return value


Line = Annotated[str, AfterValidator(_line)]
Words = Annotated[list[str], AfterValidator(_words)]
Value = Annotated[Any, AfterValidator(_value)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class ParameterTable(_Table):
    """A table `[parameters.NAME]`: a parameter."""

    type: Literal["text", "integer", "number", "boolean", "size", "duration", "path"] = Field(
        description="`text`, `integer`, `number`, `boolean`, `path`; `size`, such as 64mb; or `duration`, such as 30s."
    )
    description: Line = Field(description="Its meaning, in a sentence.")
    required: bool = Field(default=False, description="Whether it must be given.")
    default: Value | None = Field(
        default=None,
        description="Its value if it is not given. Without a default, a list is empty, and the program does not get "
        "any other parameter.",
    )
    several: bool = Field(default=False, description="Whether it is a list.")
    choices: list[Line] = Field(default=[], description="The accepted values, for type `text`.")
    minimum: Value | None = Field(default=None, description="The smallest value, for numbers, sizes and durations.")
    maximum: Value | None = Field(default=None, description="The largest value.")
    secret: bool = Field(default=False, description="Whether it is never shown; for type `text`.")
    examples: list[Value] = Field(default=[], description="Values for examples; the first is part of the example command.")


class Manifest(_Table):
    """A manifest."""

    manifest_version: Literal[1] = Field(description="The version of this format: 1.")
    name: str = Field(description="The name of the connector, and of the manifest's folder: letters, digits and `._-`.")
    kind: Literal["source", "sink"] = Field(description="`source` or `sink`.")
    replayable: bool | None = Field(
        default=None, description="For a source, required: whether the same position always yields the same messages."
    )
    loses: bool = Field(
        default=False, description="For a source: whether messages may be lost, because its system does not store them."
    )
    mode: Literal["two-phase", "batch-idempotent", "at-least-once"] | None = Field(
        default=None, description="For a sink, required: `two-phase`, `batch-idempotent` or `at-least-once`."
    )
    summary: Line = Field(description="Its input or output, in a line.")
    version: Line = Field(description="Its version.")
    language: Line = Field(description="The language that it is written in.")
    command: Words = Field(
        description="The program and its arguments, as a list. A program with a slash is relative to the manifest's folder; one "
        "without is looked up in PATH. `{folder}` stands for the manifest's folder."
    )
    check: Words | None = Field(
        default=None,
        description="A command that checks the parameters and the connection, and changes nothing. It prints one line and exits "
        "with 0, or else prints what is wrong and what to do.",
    )
    capabilities: list[Line] = Field(default=[], description="Further abilities, in words of its own; shown to people.")
    parameters: dict[str, ParameterTable] = Field(
        default={},
        description="Its parameters, each in a table. One is named like the kind, `source` or `sink`: the name at the gateway.",
    )


def inconsistencies(manifest: Manifest) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the keys of a manifest whose values do not go together, each with what to write instead."""
    if manifest.kind == "source":
        if manifest.replayable is None:
            yield ("replayable",), "is required for a source: true or false"
        if manifest.mode is not None:
            yield ("mode",), "is for sinks; remove it"
    else:
        if manifest.mode is None:
            yield ("mode",), "is required for a sink: two-phase, batch-idempotent or at-least-once"
        for key, is_given in (("replayable", manifest.replayable is not None), ("loses", manifest.loses)):
            if is_given:
                yield (key,), "is for sources; remove it"
    name = manifest.parameters.get(manifest.kind)
    if name is None or not name.required or name.type != "text" or name.several or name.secret:
        what = f"add a required parameter {manifest.kind} of type text: it is the name of the {manifest.kind} at the gateway"
        yield ("parameters", *((manifest.kind,) if name is not None else ())), what
