"""What docs/reference/connectors/http.md shows works."""

import asyncio
from pathlib import Path

from tests.connectors.programs import free_port, line, listening, page
from tests.connectors.query import querying
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import DEADLINE_S
from tests.gateway.wire import serve as gateway

PAGE = "docs/reference/connectors/http.md"
CLIENT = """\
import time
import urllib.error
import urllib.request
import uuid


def send(body: bytes) -> None:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    while True:
        try:
            request = urllib.request.Request("http://127.0.0.1:8080/orders", body, headers)
            with urllib.request.urlopen(request, timeout=60):
                return
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
        except OSError as error:
            print(f"{error}; trying again")
        time.sleep(1)


for number in range(3):
    send(b"order %d" % number)
"""
SERVICE = """\
from http.server import BaseHTTPRequestHandler, HTTPServer

seen = set()


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Idempotency-Key"] not in seen:
            seen.add(self.headers["Idempotency-Key"])
            print(body.decode(), flush=True)
        self.send_response(204)
        self.end_headers()


HTTPServer(("127.0.0.1", 9000), Service).serve_forever()
"""


async def test_the_shop_sends_until_it_is_safe(tmp_path: Path) -> None:
    port = free_port()
    async with gateway() as (_, address), querying(address, "orders/*") as query, page(PAGE, tmp_path, {"8080": port}) as shown:
        client = await shown.other_side(CLIENT)
        assert "trying again" in await line(client)
        connector = await shown.connector("http", address)
        assert await query.values("orders/0", 1) == [b"order 0"]
        await query.commit()
        (message,) = await query.batch("orders/0", 1)
        connector.kill()
        assert "trying again" in await line(client)
        await query.until_alone()
        await shown.connector("http", address)
        (again,) = await query.batch("orders/0", 1)
        assert (again.value, again.message_id) == (message.value, message.message_id) == (b"order 1", message.message_id)
        await query.commit()
        assert await query.values("orders/0", 1) == [b"order 2"]
        await query.commit()
        assert await asyncio.wait_for(client.wait(), DEADLINE_S) == 0


async def test_the_service_does_nothing_about_what_it_has_seen(tmp_path: Path) -> None:
    port = free_port()
    async with gateway() as (_, address), page(PAGE, tmp_path, {"9000": port, "--sink alerts": "--sink out"}) as shown:
        service = await shown.other_side(SERVICE)
        await listening(port)
        await shown.connector("http-sink", address)
        writer = Writer(address)
        for attempt, batch in (("a", 0), ("b", 0), ("a", 1)):
            await writer.deliver(batch, [b"alert %d" % batch], attempt=attempt)
        assert [await line(service), await line(service)] == ["alert 0", "alert 1"]
        await writer.close()
