"""Addresses, names, sizes, durations and waits of the vectors, in what Python's SDK, the gateway and configuration share."""

import random
from datetime import timedelta
from typing import Any

import grpc
import pytest
from tests.gateway.sink_wire import SinkClient
from tests.gateway.wire import Connector, Engine, serve
from tests.vectors.files import read

from headrace.contract.addresses import leads_here
from headrace.contract.backoff import Backoff, draw_from
from headrace.contract.names import covers, is_name, is_stream_name, is_stream_pattern
from headrace.contract.units import UnitError, parse_duration, parse_size
from headrace.sdk import InvalidSource, Settings, stream_name

NAMES, UNITS, BACKOFF = read("names.json"), read("units.json"), read("backoff.json")


def cases(kind: str, *, valid: bool) -> list[str]:
    return [case["name"] for case in NAMES[kind]["cases"] if case["valid"] is valid]


def test_addresses_of_this_machine() -> None:
    for case in read("addresses.json")["addresses"]["cases"]:
        assert leads_here(case["address"]) is case["here"], case


# Names


def test_names_and_patterns() -> None:
    for kind, check in (("names", is_name), ("streams", is_stream_name), ("patterns", is_stream_pattern)):
        for case in NAMES[kind]["cases"]:
            assert check(case["name"]) is case["valid"], (kind, case)


def test_what_patterns_match() -> None:
    for case in NAMES["patterns"]["matches"]:
        assert covers(case["pattern"], case["stream"]) is case["matches"], case


@pytest.mark.parametrize("name", cases("streams", valid=True))
def test_the_sdk_takes_the_name_of_a_stream(name: str) -> None:
    assert stream_name(*name.split("/")) == name


@pytest.mark.parametrize("name", cases("streams", valid=False))
def test_the_sdk_refuses_the_name_of_a_stream(name: str) -> None:
    source, _, partition = name.partition("/")
    with pytest.raises(InvalidSource):
        stream_name(source, partition)


async def test_the_gateway_opens_streams_of_every_name() -> None:
    async with serve() as (_, address):
        query, source = Engine(address, streams="*/*"), Connector(address)
        await query.attach()
        await source.hello()
        for number, name in enumerate(cases("streams", valid=True)):
            await source.open(name, number)
            assert (await source.expect("stream_opened")).stream_id == number, name
        await source.close()
        await query.close()


async def test_the_gateway_refuses_other_names_of_streams() -> None:
    async with serve() as (_, address):
        for name in cases("streams", valid=False):
            source = Connector(address)
            await source.hello()
            await source.open(name)
            assert (await source.ended())[0].name == NAMES["streams"]["status"], name
            await source.close()


async def test_the_gateway_checks_names_of_sinks() -> None:
    async with serve() as (_, address):
        for case in NAMES["names"]["cases"]:
            sink = SinkClient(address)
            if case["valid"]:
                await sink.hello(sink=case["name"])
            else:
                assert await refusal(sink, sink=case["name"]) == NAMES["names"]["status"], case
            await sink.close()


async def test_the_gateway_checks_instances() -> None:
    async with serve() as (_, address):
        for case in NAMES["instances"]["cases"]:
            for client in (Connector(address), SinkClient(address)):
                if case["valid"]:
                    await client.hello(instance=case["name"])
                else:
                    assert await refusal(client, instance=case["name"]) == case["status"], case
                await client.close()


async def refusal(client: Connector | SinkClient, **hello: Any) -> str:
    """The status that a Hello gets."""
    with pytest.raises((AssertionError, grpc.aio.AioRpcError)):
        await client.hello(**hello)
    return (await client.ended())[0].name


# Sizes, durations and waits


@pytest.mark.parametrize("case", UNITS["sizes"]["cases"], ids=lambda case: repr(case["text"]))
def test_a_size(case: dict[str, Any]) -> None:
    if case["bytes"] is None:
        with pytest.raises(UnitError):
            parse_size(case["text"])
    else:
        assert parse_size(case["text"]) == int(case["bytes"])


@pytest.mark.parametrize("case", UNITS["durations"]["cases"], ids=lambda case: repr(case["text"]))
def test_a_duration(case: dict[str, Any]) -> None:
    if case["microseconds"] is None:
        with pytest.raises(UnitError):
            parse_duration(case["text"])
    else:
        assert parse_duration(case["text"]) == timedelta(microseconds=int(case["microseconds"]))


@pytest.mark.parametrize("case", BACKOFF["cases"], ids=lambda case: f"{case['first_ms']} to {case['max_ms']} ms")
def test_a_wait_is_any_time_up_to_its_bound(case: dict[str, Any]) -> None:
    for bound in case["bounds"]:
        with draw_from(random.Random(1)):
            waits = [Backoff(case["first_ms"], case["max_ms"], attempts=bound["attempt"] - 1).next() for _ in range(1000)]
        assert 0 <= min(waits) < bound["bound_ms"] * 0.01
        assert bound["bound_ms"] * 0.99 < max(waits) <= bound["bound_ms"]


def test_the_first_bounds_are_those_of_the_sdk() -> None:
    settings, case = Settings(), BACKOFF["cases"][0]
    assert (settings.first_backoff_seconds * 1000, settings.max_backoff_seconds * 1000) == (case["first_ms"], case["max_ms"])
