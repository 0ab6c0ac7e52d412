"""The addresses that the gRPC server and the HTTP server of a gateway listen on."""

import asyncio
import contextlib
import signal
import socket

import grpc.aio
import pytest
from tests.contract.test_addresses import needs_ipv6, reaches
from tests.gateway.processes import gateway_process

from headrace.gateway import Config, Http
from headrace.gateway.config import split_address
from headrace.gateway.listen import ListenError, listen, listen_http

BOTH = {"127.0.0.1", "::1"}
HOSTS = [("localhost", BOTH), ("[::]", BOTH), ("[::1]", {"::1"}), ("127.0.0.1", {"127.0.0.1"})]


async def reached(port: int) -> set[str]:
    return {host for host in BOTH if await asyncio.to_thread(reaches, host, port)}


@needs_ipv6
@pytest.mark.parametrize(("host", "expected"), HOSTS)
async def test_grpc_listens_on_all_addresses_of_a_host(host, expected):
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    address = listen(server, Config(listen=f"{host}:0", insecure=True))
    await server.start()
    try:
        assert address.startswith(f"{host}:")
        assert await reached(split_address(address)[1]) == expected
    finally:
        await server.stop(None)


@needs_ipv6
@pytest.mark.parametrize(("host", "expected"), HOSTS)
async def test_http_listens_on_all_addresses_of_a_host(host, expected):
    with contextlib.ExitStack() as stack:
        listeners = listen_http(Config(http=Http(listen=f"{host}:0"), insecure=True))
        (port,) = {stack.enter_context(listener).getsockname()[1] for listener in listeners}
        assert await reached(port) == expected


@needs_ipv6
@pytest.mark.parametrize("taken", [socket.AF_INET, socket.AF_INET6])
async def test_a_port_that_is_taken_on_one_address_of_a_host_is_an_error(taken):
    host = "127.0.0.1" if taken == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=taken) as other:
        address = f"localhost:{other.getsockname()[1]}"
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        with pytest.raises(ListenError, match=f"cannot listen on {address}: another program uses this port"):
            listen(server, Config(listen=address))
        await server.stop(None)


def test_sighup_does_not_end_a_gateway_without_a_configuration_file():
    with gateway_process() as gateway:
        gateway.process.send_signal(signal.SIGHUP)
        gateway.wait_for_log("there is no configuration file to reload")
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.wait() == 0
