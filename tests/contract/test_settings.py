"""A setting of a deployment reaches the command: what its words say is what the command parses."""

from collections.abc import Mapping
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contract.settings import OF_GATEWAY, OF_RUN, Form, Setting
from headrace.terminal import setting_option

# A word that begins with a dash is an option, and a name ends at the first equals sign.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(lambda text: text[0] != "-")
NAME = TEXT.filter(lambda text: "=" not in text)
VALUES: Mapping[Form, st.SearchStrategy[Any]] = {
    Form.VALUE: st.none() | TEXT,
    Form.FLAG: st.booleans(),
    Form.SWITCH: st.none() | st.booleans(),
    Form.SEVERAL: st.lists(TEXT, max_size=3),
    Form.PAIRS: st.dictionaries(NAME, TEXT, max_size=3),
}


@pytest.mark.parametrize("settings", [OF_GATEWAY, OF_RUN], ids=["gateway", "run"])
@given(data=st.data())
def test_the_words_of_settings_give_a_command_their_values(settings: Mapping[str, Setting], data: st.DataObject) -> None:
    found: dict[str, Any] = {}

    def note(**options: Any) -> None:
        found.update(options)

    for setting in settings.values():
        note = setting_option(setting)(note)
    values = {name: data.draw(VALUES[setting.form], label=name) for name, setting in settings.items()}
    words = [word for name, setting in settings.items() for word in setting.words(values[name])]
    click.command(note).main(words, standalone_mode=False)
    for name, value in values.items():
        pairs = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else value
        assert found[name] == (tuple(pairs) if isinstance(pairs, list) else pairs), name
