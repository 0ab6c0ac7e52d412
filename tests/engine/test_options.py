from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from headrace.engine import OptionError
from headrace.engine.source.options import Defaults, parse
from headrace.engine.spark.format import HeadraceSource
from headrace.engine.spark.session import defaults_in
from headrace.engine.wire.connection import Connection

SECRET = "t0p-s3cret"


def test_defaults() -> None:
    options = parse({"stream": "orders/*"}, Defaults(gateway="gw:1", token=SECRET, read_tasks=7))
    assert (options.gateway, options.token, options.read_tasks, options.streams) == ("gw:1", SECRET, 7, ("orders/*",))
    assert options.fail_on_data_loss
    assert (options.gateway_timeout_s, options.inline_bytes) == (300.0, 256 * 1024)
    assert (options.stream_timeout_s, options.accept_away) == (60.0, False)
    assert options.max_messages is options.max_bytes is options.pipeline is None


def test_every_option_in_any_case(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    given = {
        "GATEWAY": "gw.example:8443",
        "Stream": "orders/*, payments/0",
        "pipeline": "p-1",
        "TOKEN": SECRET,
        "tlsca": str(tmp_path / "ca"),
        "tlscert": str(tmp_path / "cert"),
        "tlskey": str(tmp_path / "key"),
        "maxmessagespertrigger": "1000",
        "maxBytesPerTrigger": "10mb",
        "failondataloss": "FALSE",
        "gatewaytimeout": "90s",
        "streamtimeout": "5m",
        "onstreamaway": "Accept",
        "readtasks": "3",
        "inlinebytes": "0",
    }
    options = parse(given, Defaults())
    assert options.streams == ("orders/*", "payments/0")
    assert (options.max_messages, options.max_bytes, options.read_tasks, options.inline_bytes) == (1000, 10 * 2**20, 3, 0)
    assert (options.fail_on_data_loss, options.gateway_timeout_s) == (False, 90.0)
    assert (options.stream_timeout_s, options.accept_away) == (300.0, True)
    connection = Connection.of(options)
    assert (connection.ca, connection.cert, connection.key) == (b"ca", b"cert", b"key")
    assert connection.metadata == (("authorization", f"Bearer {SECRET}"),)
    assert SECRET not in f"{options!r} {connection!r} {HeadraceSource(given)!r}"


def test_files_of_tls_are_those_of_the_environment_unless_options_name_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
        monkeypatch.setenv(f"HEADRACE_TLS_{name.upper()}", name)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1, master="local[1]"))
    defaults = defaults_in(session)
    monkeypatch.chdir("/")
    connection = Connection.of(parse({"stream": "a/b"}, defaults))
    assert (connection.ca, connection.cert, connection.key) == (b"ca", b"cert", b"key")
    other = tmp_path / "other"
    other.write_text("other")
    assert Connection.of(parse({"stream": "a/b", "tlsCa": str(other)}, defaults)).ca == b"other"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["stream", "orders/*"]),
        ({"stream": " , "}, ["stream"]),
        ({"stream": "orders"}, ["stream", "'orders'", "source/partition"]),
        ({"stream": "a/b", "gatway": "x"}, ["'gatway'", "gateway?"]),
        ({"stream": "a/b", "colour": "x"}, ["'colour'", "the options are"]),
        ({"stream": "a/b", "gateway": "somewhere"}, ["gateway", "'somewhere'", "host:port"]),
        ({"stream": "a/b", "gateway": "h:99999"}, ["gateway", "host:port"]),
        ({"stream": "a/b", "maxMessagesPerTrigger": "0"}, ["maxMessagesPerTrigger", "'0'", "at least 1"]),
        ({"stream": "a/b", "maxMessagesPerTrigger": "1k"}, ["maxMessagesPerTrigger", "'1k'", "whole number"]),
        ({"stream": "a/b", "maxBytesPerTrigger": "10 potatoes"}, ["maxBytesPerTrigger", "'10 potatoes' is not a size", "64mb"]),
        ({"stream": "a/b", "failOnDataLoss": "no"}, ["failOnDataLoss", "'no'", "true or false"]),
        ({"stream": "a/b", "gatewayTimeout": "soon"}, ["gatewayTimeout", "'soon'"]),
        ({"stream": "a/b", "gatewayTimeout": "300"}, ["gatewayTimeout", "'300'", "30s"]),
        ({"stream": "a/b", "streamTimeout": "60"}, ["streamTimeout", "'60'", "30s"]),
        ({"stream": "a/b", "streamTimeout": "soon"}, ["streamTimeout", "'soon'"]),
        ({"stream": "a/b", "onStreamAway": "skip"}, ["onStreamAway", "'skip'", "fail or accept"]),
        ({"stream": "a/b", "pipeline": "a b"}, ["pipeline", "'a b'"]),
        ({"stream": "a/b", "tlsCa": "/nowhere/ca.pem"}, ["tlsCa", "/nowhere/ca.pem", "no such file"]),
        ({"stream": "a/b", "tlsCert": __file__}, ["tlsKey", "missing"]),
        ({"stream": "a/b", "tlsKey": __file__}, ["tlsCert", "missing"]),
    ],
    ids=str,
)
def test_errors_name_option_value_and_remedy(given: dict[str, str], names: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        parse({**given, "token": SECRET}, Defaults())
    assert all(name in str(caught.value) for name in names)
    assert SECRET not in str(caught.value)


def test_a_wrong_option_fails_the_load(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="did you mean stream"):
        spark.readStream.format("headrace").option("streams", "orders/*").load()
