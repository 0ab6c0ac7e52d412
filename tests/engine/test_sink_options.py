from pathlib import Path

import pytest

from headrace.engine import HeadraceError, OptionError
from headrace.engine.sink.options import parse_sink
from headrace.engine.source.schema import SCHEMA
from headrace.engine.spark.format import HeadraceSource
from headrace.engine.wire.connection import Connection
from headrace.engine.wire.gateway_options import Defaults

SECRET = "t0p-s3cret"


def test_defaults() -> None:
    options = parse_sink({"sink": "alerts"}, Defaults(gateway="gw:1", token=SECRET))
    assert (options.sink, options.gateway, options.token, options.gateway_timeout_s) == ("alerts", "gw:1", SECRET, 300.0)
    assert not options.accept_older
    assert not options.accept_lost
    assert not options.skip_refused


def test_every_option_in_any_case_and_what_spark_adds(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    given = {
        "GATEWAY": "gw.example:8443",
        "Sink": "alerts",
        "TOKEN": SECRET,
        "tlsca": str(tmp_path / "ca"),
        "tlscert": str(tmp_path / "cert"),
        "tlskey": str(tmp_path / "key"),
        "gatewaytimeout": "90s",
        "onoldercheckpoint": "Accept",
        "onsinkloss": "accept",
        "onRefused": "skip",
        "checkpointlocation": "/somewhere",
        "queryName": "totals",
        "path": "/somewhere/else",
    }
    options = parse_sink(given, Defaults())
    assert (options.gateway, options.sink, options.gateway_timeout_s) == ("gw.example:8443", "alerts", 90.0)
    assert options.accept_older
    assert options.accept_lost
    assert options.skip_refused
    connection = Connection.of(options)
    assert (connection.ca, connection.cert, connection.key) == (b"ca", b"cert", b"key")
    assert SECRET not in f"{options!r} {connection!r} {HeadraceSource(given)!r}"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["sink", "missing", "alerts"]),
        ({"sink": "a b"}, ["sink", "'a b'"]),
        ({"sink": "a", "onOlderCheckpoints": "accept"}, ["'onOlderCheckpoints'", "onOlderCheckpoint?"]),
        ({"sink": "a", "stream": "orders/*"}, ["'stream'", "the options are sink"]),
        ({"sink": "a", "onOlderCheckpoint": "skip"}, ["onOlderCheckpoint", "'skip'", "fail or accept"]),
        ({"sink": "a", "onRefused": "accept"}, ["onRefused", "'accept'", "fail or skip"]),
        ({"sink": "a", "gateway": "somewhere"}, ["gateway", "'somewhere'", "host:port"]),
        ({"sink": "a", "gatewayTimeout": "soon"}, ["gatewayTimeout", "'soon'"]),
        ({"sink": "a", "sinkTimeout": "60"}, ["sinkTimeout", "'60'", "30s"]),
        ({"sink": "a", "tlsKey": __file__}, ["tlsCert", "missing"]),
    ],
    ids=str,
)
def test_errors_name_option_value_and_remedy(given: dict[str, str], names: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        parse_sink({**given, "token": SECRET}, Defaults())
    assert all(name in str(caught.value) for name in names)
    assert SECRET not in str(caught.value)


def test_a_session_that_is_not_registered_cannot_write() -> None:
    with pytest.raises(HeadraceError, match=r"headrace\.engine\.register"):
        HeadraceSource({"sink": "alerts"}).streamWriter(SCHEMA, overwrite=False)
