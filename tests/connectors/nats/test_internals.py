"""Everything of nats-py's that it does not offer to others, and that the connectors use or replace, one by one.

Where one of these fails, a release of nats-py has changed what `internals.py` uses: look there before its cap is raised.
"""

import inspect
import re
from pathlib import Path

import nats.aio.client
import nats.aio.subscription
import pytest
from nats.js import JetStreamContext
from tests.connectors.private_names import private_names

import headrace.connectors.nats as package
from headrace.connectors.nats.client import Client, pairs_of
from headrace.connectors.nats.internals import MendedClient

HERE = Path(package.__file__).parent
THEIRS = nats.aio.client.Client
REPLACED = {"_build_message", "_close", "_connect_command", "_parse_header_lines"}
READ = {"_pending", "_pending_data_size", "_server_info"}


def test_all_that_is_used_is_in_one_module():
    owners = (THEIRS, nats.aio.subscription.Subscription, JetStreamContext)
    theirs = {name for owner in owners for name in re.findall(r"\bself\.(_[a-z]\w*)|def (_[a-z]\w*)", inspect.getsource(owner))}
    theirs = {name for pair in theirs for name in pair if name}
    assert private_names(HERE / "internals.py") & theirs == REPLACED | READ
    assert not {name for name in vars(Client) if re.fullmatch(r"_[a-z]\w*", name)} & theirs
    own = inspect.getsource(Client)
    assert not set(re.findall(r"self\.(_[a-z]\w*)", own)) & theirs
    for path in HERE.glob("*.py"):
        if path.name not in ("internals.py", "client.py"):
            foreign = re.findall(r"(?:client|subscription|message|manager)\.(_[a-z]\w*)", path.read_text())
            assert foreign == [], path.name


@pytest.mark.parametrize("name", sorted(REPLACED))
def test_what_is_replaced_is_called_as_it_is_here(name):
    theirs, ours = getattr(THEIRS, name), getattr(MendedClient, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)
    assert isinstance(inspect.getattr_static(ours, "__func__", ours), type(inspect.getattr_static(theirs, "__func__", theirs)))
    calls = inspect.getsource(THEIRS).count(f"self.{name}(")
    assert calls >= 1, f"nothing calls {name} any more"


async def test_what_is_read_is_there_and_means_what_it_meant():
    client = THEIRS()
    assert (client._pending, client._pending_data_size) == ([], 0)
    assert client.pending_data_size == 0
    await client._send_command(b"PUB x 0\r\n\r\n")
    assert client._pending == [b"PUB x 0\r\n\r\n"]
    assert client.pending_data_size == client._pending_data_size == len(b"PUB x 0\r\n\r\n")
    assert isinstance(client._server_info, dict)
    assert 'self._server_info["tls_required"]' in inspect.getsource(THEIRS._process_connect_init)
    assert 'self.options["tls_handshake_first"]' in inspect.getsource(THEIRS._process_connect_init)


def test_messages_and_headers_are_as_they_came():
    client = Client("nowhere", encrypted=False)
    headers = client._parse_header_lines(b"a: 1\r\na: 2\r\nb: \xff\r\n")
    message = client._build_message(1, b"\xff.x", b"reply", b"data", headers)
    assert (message.subject.encode(errors="surrogateescape"), message.reply, message.data) == (b"\xff.x", "reply", b"data")
    assert pairs_of(message) == (("a", b"1"), ("a", b"2"), ("b", b"\xff"))
    plain = client._build_message(1, b"s", b"", b"", None)
    assert (plain.subject, pairs_of(plain)) == ("s", ())


def test_a_flush_of_nats_py_still_overtakes_what_is_to_be_sent():
    """Once it does not, nobody needs `Client.flush`."""
    assert "self._transport.write(PING_PROTO)" in inspect.getsource(THEIRS._send_ping)
