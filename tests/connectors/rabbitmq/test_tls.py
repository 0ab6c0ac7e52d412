"""RabbitMQ behind TLS: who is trusted, and who is shown."""

import asyncio
from pathlib import Path

import pytest
from tests.connectors.rabbitmq.rig import serving, values
from tests.connectors.tls_front import TlsFront
from tests.gateway.certificates import Authority

from headrace.connectors.rabbitmq import RABBITMQ, Denied, RabbitMQParameters, RabbitMQQueueSource, Unavailable


async def test_a_broker_is_reached_by_tls(rabbit, rabbitmq, address, query, tmp_path: Path):
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    client = authority.issue("client")
    queue = rabbit.declare("classic")
    sent = [b"x" * 1_000_000, b"y"]
    rabbit.publish(queue, sent)
    async with TlsFront(rabbitmq.port, authority) as front:

        def parameters(**files: Path) -> RabbitMQParameters:
            return RabbitMQParameters(url=f"amqps://guest:guest@{front.address}/", source="s", queue=queue, **files)

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
