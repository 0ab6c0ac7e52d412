"""The example in the help of each connector is a call that the connector accepts."""

import shlex
from typing import Any

import pytest

from headrace.connectors import connector_names, declared
from headrace.connectors_cli.group import connector_command, connector_of, implementation_of
from headrace.connectors_cli.options import example_of

SECRETS = {"url": "postgresql://headrace@127.0.0.1/shop"}
"""A valid value of each secret that some connector requires."""


@pytest.mark.parametrize("name", sorted(connector_names()))
def test_the_example_of_a_connector_is_a_valid_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connector = connector_of(name)
    assert connector is not None
    calls: list[Any] = []
    command = connector_command(connector, lambda _, parameters: calls.append(parameters), lambda act: act, "run", "gateway")
    example = example_of(connector, declared(implementation_of(connector).parameters))
    assert f"  {example}" in (command.help or "")
    words = shlex.split(example)
    begin = words.index("headrace")
    assert words[begin : begin + 4] == ["headrace", "connector", "run", name]
    for variable in words[:begin]:
        secret = variable.removesuffix("=...").rpartition("_")[2].lower()
        monkeypatch.setenv(variable.removesuffix("=..."), SECRETS[secret])
    command.main(words[begin + 4 :], standalone_mode=False)
    assert len(calls) == 1
