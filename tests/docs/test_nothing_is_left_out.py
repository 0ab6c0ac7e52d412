"""Each option of a command, each key of the gateway's file and each setting of the Python SDK stands on a page."""

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import get_args

import click
import pytest
from pydantic import BaseModel
from tests.docs.pages import PAGES, text

from headrace.cli import cli
from headrace.gateway import Config
from headrace.sdk import Settings, Tls

_LABORATORY = {"bench", "chaos", "demo", "soak"}
_CODE = [code for page in PAGES for code in re.findall(r"```.*?```|`[^`\n]+`", text(page), re.DOTALL)]
_WORDS = {word for code in _CODE for word in re.findall(r"--[a-z][a-z0-9-]*|\w+", code)}


def commands(group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Each command below a group, with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        if group is cli and name in _LABORATORY:
            continue
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in commands(command))


def untold(command: click.Command) -> list[str]:
    """The options that no page names: as an option, or as the key of a configuration file."""
    shown = [parameter for parameter in command.params if isinstance(parameter, click.Option) and not parameter.hidden]
    # The page of connectors tells of options for the gateway whose names a system has, too, by their prefix.
    longs = [[name for name in option.opts if name.startswith("--")] for option in shown]
    return [
        names[-1]
        for names in longs
        if names and not names[0].startswith("--gateway-")
        if not any(name in _WORDS or name[2:].replace("-", "_") in _WORDS for name in names)
    ]


def keys(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a table and of the tables in it."""
    for name, field in model.model_fields.items():
        yield name
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from keys(part)


def test_every_option_is_on_a_page() -> None:
    found = list(commands(cli))
    assert len(found) > 50
    assert {name: missing for name, command in found if (missing := untold(command))} == {}


def test_every_key_of_the_gateway_is_on_its_page() -> None:
    page = text("docs/run/gateway.md")
    assert [key for key in keys(Config) if f"`{key}`" not in page and f"[{key}]" not in page] == []


@pytest.mark.parametrize("settings", [Settings, Tls])
def test_every_setting_of_the_python_sdk_is_on_its_page(settings: type[Settings | Tls]) -> None:
    page = text("docs/write/writing-a-source.md")
    assert [field.name for field in fields(settings) if not re.search(rf"\b{field.name}\b", page)] == []
