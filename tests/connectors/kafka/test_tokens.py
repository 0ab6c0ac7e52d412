"""Tokens of OAUTHBEARER that expire while a source and a sink run: renewed in time, or named, with the way back."""

import asyncio
import logging
import threading
import time
from contextlib import closing

import pytest
from tests.connectors.kafka.rig import DEADLINE, Query, numbered, numbers, reading, sink_of, write
from tests.connectors.kafka.secured import SECRET, Endpoint, token
from tests.health.site import site

from headrace.connectors.kafka import KafkaAway, KafkaSink, oauth
from headrace.connectors.kafka.oauth import FileTokens, RequestedTokens
from headrace.connectors.kafka.token_endpoint import ClientCredentials, NoToken, TokenAway, TokenRefused

LIFE_S = 8.0
CAUSES = {
    "closes": "/token cannot be reached",
    "hangs": "/token has not answered for 10 s",
    "is ill": "/token answers 503 Service Unavailable",
    "talks nonsense": "/token does not answer with an access_token",
    "gives expired tokens": "rejects the token of OAUTHBEARER",
}


@pytest.mark.each_value
async def test_tokens_are_renewed_while_source_and_sink_run(secured, admin, address, query, endpoint, each_client):
    endpoint.life_s = LIFE_S
    topic, login = admin.create(), {"bootstrap_servers": f"{secured.host}:{secured.sasl_port}", **endpoint.login()}
    one: Query = query()
    with closing(sink_of(topic=topic, sink=topic, **login)) as sink:
        async with reading(address, topics=topic, **login):
            await one.attach()
            batch = 0
            while len(endpoint.answers) < 4:
                await asyncio.to_thread(_write, sink, batch)
                batch += 1
                assert numbers(await one.read(batch)) == list(range(batch))


def _write(sink: KafkaSink, batch: int) -> None:
    """Writes a transaction, again if its login ended first: a machine may be held up for longer than a token lives."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            return write(sink, batch, numbered(batch, 1))
        except KafkaAway:
            assert time.monotonic() < deadline
            logging.getLogger(__name__).warning("transaction %d again", batch, exc_info=True)


@pytest.mark.each_value
@pytest.mark.parametrize("fault", Endpoint.FAULTS)
async def test_a_source_that_gets_no_token_waits_and_goes_on(secured, admin, endpoint, each_client, tmp_path, fault):
    endpoint.life_s = LIFE_S
    topic = admin.create()
    admin.append(topic, numbered(0, 5))
    stream = f"s/{topic}-0"
    login = {"bootstrap_servers": f"{secured.host}:{secured.sasl_port}", **endpoint.login()}
    with site(tmp_path) as here:
        one = Query(here.address)
        async with reading(here.address, topics=topic, **login):
            await one.attach()
            assert numbers(await one.read(5)) == list(range(5))
            endpoint.fault = fault
            admin.append(topic, numbered(5, 5))
            part, connector = f"stream {stream}", "connector s"
            await here.names("connector-reports", part, CAUSES[fault], root=connector)
            endpoint.repair()
            admin.append(topic, numbered(10, 5))
            assert numbers(await one.read(15)) == list(range(15))
            await here.clears(part, connector)
        await one.close()


ANSWERS = {
    "no JSON": (200, b"<html>", NoToken, "does not answer with an access_token"),
    "JSON within JSON": (200, b"[" * 100_000, NoToken, "does not answer with an access_token"),
    "no object": (200, b"[1]", NoToken, "does not answer with an access_token"),
    "a number": (200, b'{"access_token": 1}', NoToken, "does not answer with an access_token"),
    "lines": (200, b'{"access_token": "a\\nb"}', NoToken, "it has spaces or lines"),
    "other letters": (200, b'{"access_token": "\\ud800"}', NoToken, "it has spaces or lines"),
    "a redirect": (302, b"", NoToken, "answers 302"),
    "not found": (404, b"", NoToken, "check oauth_token_url"),
    "a refusal": (401, b'{"error": "invalid_client"}', TokenRefused, "invalid_client; check oauth_client_id"),
    "too many": (429, b'{"error": "invalid_client"}', TokenAway, "answers 429"),
    "no service": (503, b"\xff", TokenAway, "answers 503"),
}


@pytest.mark.parametrize(("status", "body", "kind", "text"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_no_token_is_named_with_the_endpoint(endpoint, monkeypatch, status, body, kind, text):
    monkeypatch.setattr(endpoint, "answer", lambda *_: (status, body))
    tokens = RequestedTokens(_credentials(endpoint))
    with pytest.raises(kind, match=text) as told:
        tokens.token()
    assert endpoint.url in str(told.value)
    assert tokens.trouble() == told.value.args[0]


@pytest.mark.parametrize("life", ["NaN", "Infinity", "1e999", "-5", "0", "true", "null", '"soon"', "{}"])
def test_a_token_without_a_sensible_life_is_renewed_within_a_minute(endpoint, monkeypatch, life):
    monkeypatch.setattr(endpoint, "answer", lambda *_: (200, b'{"access_token": "a.b.c", "expires_in": %s}' % life.encode()))
    tokens = RequestedTokens(_credentials(endpoint))
    assert tokens.token() == "a.b.c"
    assert 0 < tokens.seconds() <= 60


def test_a_login_in_the_last_fifth_of_a_life_takes_the_next_token(endpoint):
    endpoint.life_s, now = 100.0, [0.0]
    tokens = RequestedTokens(_credentials(endpoint), lambda: now[0])
    first = tokens.token()
    for now[0], asked in ((79.0, 1), (80.0, 2), (159.9, 2), (260.0, 3)):
        assert tokens.token()
        assert len(endpoint.answers) == asked
    for now[0] in (340.0, 359.9):
        endpoint.fault = "is ill"
        last = tokens.token()
    assert last != first
    now[0] = 360.0
    with pytest.raises(TokenAway, match="answers 503"):
        tokens.token()


@pytest.mark.parametrize("fault", ["is ill", "hangs"])
def test_a_token_that_ends_while_the_next_one_is_waited_for_is_not_returned(endpoint, monkeypatch, fault):
    monkeypatch.setattr(oauth, "_BRIEFLY_S", 0.05)
    monkeypatch.setattr(oauth, "_ANSWER_S", 0.1)
    times = iter([0.0, 99.9, 100.1])
    endpoint.life_s = 100.0
    tokens = RequestedTokens(_credentials(endpoint), lambda: next(times))
    assert tokens.token()
    endpoint.fault = fault
    with pytest.raises(TokenAway):
        tokens.token()


def test_the_next_token_is_waited_for_once_the_one_before_has_ended(endpoint, monkeypatch):
    monkeypatch.setattr(oauth, "_BRIEFLY_S", 0.05)
    endpoint.life_s, has_ended = 100.0, threading.Event()
    times = iter([0.0, 99.9, 100.1])

    def clock() -> float:
        now = next(times)
        if now > 100.0:
            has_ended.set()
        return now

    tokens = RequestedTokens(_credentials(endpoint), clock)
    first = tokens.token()
    monkeypatch.setattr(oauth, "request_token", lambda _: (has_ended.wait(60.0) and "second", 100.0))
    assert (first != "second", tokens.token()) == (True, "second")


def test_a_valid_token_is_used_while_the_endpoint_is_away_and_a_refused_one_is_not(endpoint):
    endpoint.life_s = 0.0  # as if unsaid: a minute
    tokens = RequestedTokens(_credentials(endpoint))
    first = tokens.token()
    endpoint.fault = "closes"
    assert tokens.token() == first
    tokens.forget()
    with pytest.raises(TokenAway, match="cannot be reached"):
        tokens.token()
    endpoint.repair()
    assert tokens.token()
    assert tokens.trouble() == ""


def test_a_token_in_a_file_is_read_anew_and_told_once_it_has_expired(tmp_path):
    file = tmp_path / "token"
    tokens = FileTokens(file)
    assert "No such file" in tokens.trouble()
    file.write_text(token(30))
    assert (tokens.token(), tokens.trouble()) == (file.read_text(), "")
    assert 0 < tokens.seconds() <= 30
    file.write_text(token(-30))
    assert "expired at" in tokens.trouble()
    for opaque in ("opaque", "a.b.c", f"{token()}.more", "e30.e30."):
        file.write_text(opaque)
        assert (tokens.token(), tokens.trouble()) == (opaque, "")
    file.write_text("two words")
    with pytest.raises(NoToken, match="contains no token"):
        tokens.token()


def _credentials(endpoint: Endpoint) -> ClientCredentials:
    return ClientCredentials(endpoint.url, "me", SECRET, "kafka")
