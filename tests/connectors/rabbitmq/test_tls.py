"""RabbitMQ behind TLS: who is trusted, and who is shown."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.connectors.rabbitmq.rig import serving, values
from tests.gateway.certificates import Authority

from headrace.connectors.rabbitmq import RABBITMQ, Denied, RabbitMQParameters, RabbitMQQueueSource, Unavailable


@asynccontextmanager
async def speaking_tls(port: int, authority: Authority) -> AsyncIterator[int]:
    """A port that speaks TLS, wants a certificate, and forwards to another one."""
    pair = authority.issue("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.cert)
    context.load_cert_chain(pair.cert, pair.key)
    context.verify_mode = ssl.CERT_REQUIRED

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, inner_writer), carry(inner_reader, writer))

    async with await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_broker_is_reached_by_tls(rabbit, rabbitmq, address, query, tmp_path: Path):
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    client = authority.issue("client")
    queue = rabbit.declare("classic")
    sent = [b"x" * 1_000_000, b"y"]
    rabbit.publish(queue, sent)
    async with speaking_tls(rabbitmq.port, authority) as port:

        def parameters(**files: Path) -> RabbitMQParameters:
            return RabbitMQParameters(url=f"amqps://guest:guest@127.0.0.1:{port}/", source="s", queue=queue, **files)

        shown = {"tls_certificate": client.cert, "tls_key": client.key}
        async with serving(RabbitMQQueueSource(parameters(tls_ca=authority.cert, **shown)), address):
            assert values(await query().read(2)) == sent

        async def check(**files: Path) -> str:
            return await asyncio.to_thread(RABBITMQ.check, parameters(**files))

        with pytest.raises(Denied, match=r"its certificate is not trusted: .*; set tls_ca to the authority that signed it"):
            await check(tls_ca=stranger.cert, **shown)
        with pytest.raises(Unavailable, match="does it require TLS or a certificate"):
            await check(tls_ca=authority.cert)
        with pytest.raises(Denied, match=r"nowhere\.pem: cannot be read as PEM"):
            await check(tls_ca=tmp_path / "nowhere.pem")
