"""The settings by which a gateway is reached have one name and one meaning wherever somebody writes them."""

import click
import pytest

from headrace.connectors.configuration import GatewayTable
from headrace.connectors.manifests import OF_THE_GATEWAY
from headrace.contract.settings import GATEWAY, OF_CONNECTION, TLS, Setting
from headrace.terminal.connection import own_connection_options

each = pytest.mark.parametrize("setting", OF_CONNECTION.values(), ids=lambda setting: setting.name)


@click.command
@own_connection_options
def command(connection: object) -> None:
    """Has the options."""


@each
def test_an_option_has_the_name_the_variable_and_the_meaning(setting: Setting) -> None:
    (option,) = (one for one in command.params if setting.option in one.opts)
    assert isinstance(option, click.Option)
    assert (option.envvar, option.help) == (setting.variable, setting.description)


@each
def test_a_key_has_the_name_and_the_meaning(setting: Setting) -> None:
    field = GatewayTable.model_fields["address" if setting is GATEWAY else setting.name]
    assert (field.description or "").startswith(setting.description)


def test_there_are_no_others() -> None:
    assert len(command.params) == len(GatewayTable.model_fields) == len(OF_THE_GATEWAY) == len(OF_CONNECTION)


def test_names_in_each_form() -> None:
    assert [(s.option, s.variable, s.spark_option) for s in (TLS, OF_CONNECTION["tls_ca"])] == [
        ("--tls", "HEADRACE_TLS", "tls"),
        ("--tls-ca", "HEADRACE_TLS_CA", "tlsCa"),
    ]
