"""What an address means: how it is written, which are this machine, and what a server listens on."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contract.addresses import host_of, is_loopback, joined_address, leads_here, open_listeners, split_address


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@contextlib.contextmanager
def listening(host: str, port: int = 0) -> Iterator[list[tuple[str, int]]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(each).getsockname()[:2] for each in open_listeners(host, port, 8)]


def reaches(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=120):
        return True
    return False


@needs_ipv6
@pytest.mark.parametrize(
    ("host", "reached"),
    [
        ("localhost", {"127.0.0.1", "::1"}),
        ("LocalHost.", {"127.0.0.1", "::1"}),
        ("::", {"127.0.0.1", "::1"}),
        ("::1", {"::1"}),
        ("127.0.0.1", {"127.0.0.1"}),
        ("0.0.0.0", {"127.0.0.1"}),
    ],
)
def test_a_host_is_all_its_addresses_with_one_port(host, reached):
    with listening(host) as places:
        (port,) = {port for _, port in places}
        assert {one for one in ("127.0.0.1", "::1") if reaches(one, port)} == reached


@needs_ipv6
@pytest.mark.parametrize("taken", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_on_one_address_is_an_error(taken):
    with listening(taken) as ((_, port),), pytest.raises(OSError, match="in use"):
        open_listeners("localhost", port, 8)


def test_names_that_are_not_known_are_an_error():
    with pytest.raises(socket.gaierror):
        open_listeners("no-such-host.invalid", 0, 8)


def test_addresses_of_other_machines_are_an_error():
    with pytest.raises(OSError, match="annot assign"):
        open_listeners("192.0.2.1", 0, 8)


def test_accepted_connections_notice_that_the_other_side_has_vanished():
    (listener,) = open_listeners("127.0.0.1", 0, 8)
    with listener, socket.create_connection(listener.getsockname(), timeout=120):
        listener.setblocking(True)
        with listener.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 45_000
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


@pytest.mark.parametrize("wrong", ["", ":", ":1", "host", "host:", "host:x", "host:70000", "::1:80", "[::1]", "[::1:80", "h:²"])
def test_what_is_no_address_is_refused(wrong):
    with pytest.raises(ValueError, match="is not host:port"):
        split_address(wrong)


@given(st.one_of(st.ip_addresses().map(str), st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)), st.integers(0, 65535))
def test_addresses_are_what_they_were(host, port):
    assert split_address(joined_address(host, port)) == (host, port)
    assert host_of(joined_address(host, port)) == host


LOOPBACK = ["localhost", "127.0.0.1", "127.255.255.254", "::1"]


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_addresses_are_of_this_machine(host):
    assert is_loopback(host)
    address = joined_address(host, 7433)
    targets = [host, address, f"dns:///{address}", f"dns:{address}"]
    assert all(leads_here(target) for target in targets)


HERE = """
unix:/tmp/s unix-abstract:s ipv4:127.0.0.1:7433 ipv6:%5B::1%5D:7433 LOCALHOST:1 localhost.:1
a.localhost:1 127.1:80 0.0.0.0:80 [::]:80 [::ffff:127.0.0.1]:80 dns://8.8.8.8/localhost:1
"""


@pytest.mark.parametrize("target", HERE.split())
def test_these_lead_to_this_machine_too(target):
    assert leads_here(target)


ELSEWHERE = """
example.org:80 127.example.org:80 127.0.0.1.example.org:80 localhost.example.org:1 notlocalhost:1
128.0.0.1:1 10.0.0.1:1 [2001:db8::1]:1 dns://127.0.0.1/example.org:1 [::ffff:10.0.0.1]:80
"""


@pytest.mark.parametrize("target", ELSEWHERE.split())
def test_these_do_not(target):
    assert not leads_here(target)
    assert not is_loopback(host_of(target))
