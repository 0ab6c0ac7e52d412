"""The page about peeks says what is shown, and what is hidden."""

from pathlib import Path

import pytest
from tests.docs.pages import blocks, section, text

from headrace.contract.limits import MAX_DEAD_LETTERS
from headrace.gateway import load_config
from headrace.gateway.core.sinks.dead_letters import MAX_OF_PART, MAX_SINK_BYTES
from headrace.gateway.core.streams.previews import HEADER_BYTES, KEY_BYTES, MAX_HEADERS, is_secret
from headrace.gateway.http.events import READ_TIMEOUT_S

PAGE = "docs/run/peek.md"


def test_limits_are_what_the_page_says() -> None:
    page = " ".join(text(PAGE).split())
    assert f"at most {KEY_BYTES} bytes of the key" in page
    assert f"{MAX_HEADERS} headers with at most {HEADER_BYTES} bytes each" in page
    assert f"by HTTP after {READ_TIMEOUT_S:g} s" in page
    assert f"the last {MAX_DEAD_LETTERS} of each sink in memory, at most {MAX_SINK_BYTES // 1024} KiB" in page
    assert f"each part of a micro-batch the last {MAX_OF_PART}." in page


def test_every_name_of_a_secret_on_the_page_is_hidden() -> None:
    (told,) = [part for part in section(PAGE, "What is shown, and what is not").split("\n\n") if part.startswith("Secrets")]
    names = told.partition("in any case")[0].split("`")[1::2]
    assert len(names) == 10
    for name in names:
        for written in (name, name.upper(), name.replace(" ", "-"), name.replace(" ", "")):
            assert is_secret(written.encode()), written


@pytest.mark.parametrize("example", blocks(PAGE, "toml"), ids=lambda block: block.heading)
def test_examples_of_configurations_are_valid(example: object, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(example.text)  # type: ignore[attr-defined]
    config = load_config(file, environ={"SUPPORT_TOKEN": "one"})
    assert config.tokens[0].peek[0] == "orders/*"
