"""The contexts of sampled messages are found in the columns of frames, few or many, whatever else is in them."""

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv.schemas import Schemas

from headrace.telemetry import MAX_LINKS, sampled
from headrace.telemetry.spans import SCHEMA_URL, Operation

Header = tuple[bytes, bytes | None]
NULL = 0xFFFFFFFF


def context(number: int, flags: str = "01") -> bytes:
    return f"00-{number + 1:032x}-{number + 1:016x}-{flags}".encode()


def found(headers: Sequence[Header]) -> list[bytes]:
    sizes = [len(name) for name, _ in headers]
    value_sizes = [NULL if value is None else len(value) for _, value in headers]
    names, values = b"".join(name for name, _ in headers), b"".join(value or b"" for _, value in headers)
    return list(sampled(names, struct.pack(f"<{len(sizes)}I", *sizes), values, struct.pack(f"<{len(sizes)}I", *value_sizes)))


FLAGS = st.sampled_from(["00", "01", "02", "03", "ff", "0b", "0a", "xx"])
NAMES = st.sampled_from([b"traceparent", b"tracestate", b"Traceparent", b"xtraceparen", b"a", b""])
VALUES = st.none() | st.binary(max_size=60) | st.builds(context, st.integers(0, 5), FLAGS)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=200))
def test_few_and_many_headers_give_the_same(headers: list[Header]) -> None:
    right = [value for name, value in headers if name == b"traceparent" and value is not None and len(value) == 55]
    expected = list(dict.fromkeys(value for value in right if value[:3] == b"00-" and value[53:] in (b"01", b"03", b"ff", b"0b")))
    assert found(headers) == expected
    # What follows cannot change what is found, but makes them many.
    assert found([*headers, *[(b"other", b"")] * 100]) == expected


@given(st.lists(st.builds(context, st.integers(0, 100), FLAGS), min_size=65, max_size=200))
def test_headers_that_are_all_alike_give_the_same_as_among_others(values: list[bytes]) -> None:
    headers = [(b"traceparent", value) for value in values]
    expected = list(dict.fromkeys(value for value in values if value[53:] in (b"01", b"03", b"ff", b"0b")))[:MAX_LINKS]
    assert found(headers) == expected
    assert found([*headers, (b"other", b"")]) == expected


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize(
    "value",
    [
        context(1, "00"),
        context(10).upper(),
        b"ff" + context(10)[2:],
        b"00-" + b"0" * 32 + context(1)[35:],
        context(1)[:36] + b"0" * 16 + b"-01",
        context(1) + b"-more",
        context(1)[:-1],
        b"",
        None,
    ],
)
def test_what_is_not_sampled_or_not_valid_has_no_context(value: bytes | None, times: int) -> None:
    assert found([(b"traceparent", value)] * times) == []


@pytest.mark.parametrize("count", [MAX_LINKS + 1, 1000])
def test_their_number_is_limited(count: int) -> None:
    assert found([(b"traceparent", context(n)) for n in range(count)]) == [context(n) for n in range(MAX_LINKS)]


def test_the_conventions_have_the_attributes_and_operations() -> None:
    assert SCHEMA_URL in {schema.value for schema in Schemas}
    known = {value for name, value in vars(messaging_attributes).items() if name.startswith("MESSAGING_")}
    used = ("system", "operation.name", "operation.type", "destination.name", "batch.message_count", "client.id")
    assert {f"messaging.{name}" for name in used} <= known
    operations = {value.value for value in messaging_attributes.MessagingOperationTypeValues}
    assert {operation.value[1] for operation in Operation} <= operations
