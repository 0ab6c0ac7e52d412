"""Connectors whose token is in a file: a token that is replaced before it is revoked ends no connector."""

import asyncio
from pathlib import Path

import pytest
from tests.fake_gateway.server import until
from tests.gateway.processes import gateway_process

from headrace.gateway import token_digest
from headrace.sdk import GatewayRefused, Message, Sink, Source, serve


class Log(Source):
    name = "orders"

    def partitions(self):
        return ["0"]

    def read(self, partition, position):
        yield Message(b"a")
        while True:
            yield None


class Totals(Sink):
    name = "totals"

    def write(self, messages):
        pass


def configure(folder: Path, *tokens: str) -> Path:
    config, digests = folder / "gateway.toml", [token_digest(token) for token in tokens]
    new = folder / "gateway.new"
    new.write_text(f'[[tokens]]\nname = "all"\nsha256 = {digests}\nsources = ["*/*"]\nsinks = ["*"]\n')
    new.replace(config)
    return config


def replace(file: Path, token: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(token)
    new.chmod(0o600)
    new.replace(file)


@pytest.mark.parametrize("connector", [Log, Totals])
async def test_a_session_whose_token_is_revoked_begins_again_with_the_one_that_is_in_the_file(
    tmp_path: Path, connector: type[Log] | type[Totals]
) -> None:
    file = tmp_path / "token"
    replace(file, "first")
    stop = asyncio.Event()
    with gateway_process("--config", configure(tmp_path, "first")) as gateway:
        serving = asyncio.create_task(serve(connector(), gateway=gateway.address, token_file=file, stop=stop))
        try:
            await asyncio.to_thread(gateway.wait_for_log, "session opened")
            configure(tmp_path, "first", "second")
            await asyncio.to_thread(gateway.wait_for_log, '"calls_ended": 0')
            replace(file, "second")
            configure(tmp_path, "second")
            await asyncio.to_thread(gateway.wait_for_log, '"calls_ended": 1')
            await until(lambda: serving.done() or gateway.log.count("session opened") == 2)
            assert not serving.done(), serving
            # Nothing is in the file that the gateway knows: that is a refusal.
            configure(tmp_path, "third")
            with pytest.raises(GatewayRefused, match="UNAUTHENTICATED"):
                await asyncio.wait_for(serving, 60)
        finally:
            stop.set()
            serving.cancel()


async def test_a_token_that_is_refused_at_first_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    replace(file, "unknown")
    with (
        gateway_process("--config", configure(tmp_path, "first")) as gateway,
        pytest.raises(GatewayRefused, match="UNAUTHENTICATED"),
    ):
        await asyncio.wait_for(serve(Log(), gateway=gateway.address, token_file=file), 60)
