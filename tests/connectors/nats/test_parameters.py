"""The parameters of the NATS connectors, and the errors for invalid ones."""

import pytest
from pydantic import ValidationError

from headrace.connectors.nats import NatsConsumerParameters, NatsCoreParameters, NatsParameters, NatsSinkParameters

STREAM = {"source": "s", "stream": "S"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"servers": "localhost:4222"}, "nats://HOST:PORT"),
        ({"servers": "nats://user:secret@localhost"}, "as separate parameters"),
        ({"servers": []}, "at least 1"),
        ({"user": "u"}, "go together"),
        ({"user": "u", "password": "secret", "token": "secret"}, "user and token are different ways to authenticate"),
        ({"tls_key": "k"}, "go together"),
        ({"stream": "a.b"}, "String should match"),
        ({"key": "headers:x"}, "String should match"),
        ({"subjects": "a..b"}, "String should match"),
        ({"partition_by_subject": True}, "needs subjects"),
        ({"partition_by_subject": True, "subjects": ["a.*", "a.>"]}, "would be the same partition"),
    ],
)
def test_what_a_source_cannot_be_told(more, why):
    with pytest.raises(ValidationError, match=why) as caught:
        NatsParameters(**{**STREAM, **more})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("a b", "without spaces"),
        ("a.>", "wildcards"),
        ("a..b", "write a subject"),
        ("a.{value}", "{value} is not a placeholder"),
        ("", "write a subject"),
    ],
)
def test_what_a_sink_cannot_be_told(subject, why):
    with pytest.raises(ValidationError, match=why):
        NatsSinkParameters(sink="s", subject=subject)


def test_partitions():
    assert NatsParameters(**{**STREAM, "stream": "Ö"}).partitions == {"_": ()}
    assert NatsParameters(**STREAM, subjects=["a.>", "b"]).partitions == {"S": ("a.>", "b")}
    several = NatsParameters(**STREAM, subjects=["a.>", "b.*.c"], partition_by_subject=True)
    assert several.partitions == {"a._": ("a.>",), "b._.c": ("b.*.c",)}


def test_secrets_are_not_shown():
    given = {"user": "u", "password": "secret"}
    for parameters in (
        NatsConsumerParameters(**STREAM, consumer="c", **given),
        NatsCoreParameters(source="s", subjects="a", token="secret"),
    ):
        assert "secret" not in repr(parameters)
        assert "secret" not in parameters.model_dump_json()
