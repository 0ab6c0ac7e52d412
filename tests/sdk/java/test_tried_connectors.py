"""The connectors of tried.toml: each runs in the bridge as the page says."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripts.tried_connectors import PAGE, Tried, page, tried
from tests.sdk.java import tried as rig
from tests.sdk.java.conftest import Toolchain

_TRIED = tried()


@pytest.fixture
async def system(one: Tried, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[rig.System]:
    """The system of a connector."""
    match one.server:
        case "postgresql":
            yield await rig.postgresql(request.getfixturevalue("postgresql"))
        case "mariadb":
            with rig.mariadb(tmp_path) as found:
                yield found
        case "kafka":
            yield rig.kafka(request.getfixturevalue("kafka"))
        case _:
            yield rig.files(tmp_path)


@pytest.mark.timeout(900)  # The first build fetches what it needs.
@pytest.mark.parametrize("one", _TRIED, ids=[one.name for one in _TRIED])
async def test_a_connector_of_the_page_runs(
    one: Tried, system: rig.System, bridge: list[str], toolchain: Toolchain, tmp_path: Path
) -> None:
    await rig.ran(one, system, rig.fetched(one, toolchain), bridge, tmp_path)


def test_the_page_is_made_of_the_list() -> None:
    assert PAGE.read_text() == page(), "run: python -m scripts.tried_connectors"


def test_the_list_names_each_connector_once_and_its_version() -> None:
    assert len({one.name for one in _TRIED}) == len(_TRIED)
    assert len({one.connector_class for one in _TRIED}) == len(_TRIED)
    for one in _TRIED:
        assert re.fullmatch(r"[\w.]+:[\w-]+:\d[\w.]*", one.artifact), one.name
        assert one.wanted, one.name
        assert bool(one.found) == (one.kind == "sink"), one.name
