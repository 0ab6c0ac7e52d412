"""What docs/reference/connectors/tcp.md shows works."""

from pathlib import Path

from tests.connectors.programs import free_port, listening, page
from tests.connectors.query import querying
from tests.gateway.wire import serve as gateway


async def test_the_client_of_the_page(tmp_path: Path) -> None:
    port = free_port()
    shown_page = page("docs/reference/connectors/tcp.md", tmp_path, {"7000": port})
    async with gateway() as (_, address), querying(address, "trades/*") as query, shown_page as shown:
        await shown.connector("tcp", address)
        await listening(port)
        assert await (await shown.program(0)).wait() == 0
        assert await query.values("trades/0", 1000) == [b"trade %d" % number for number in range(1000)]
