from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest
from tests.gateway.wire import Connector, Engine, serve


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with serve() as (_, address):
        yield address


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def connector(address: str, stack: AsyncExitStack) -> Callable[[], Connector]:
    def make() -> Connector:
        made = Connector(address)
        stack.push_async_callback(made.close)
        return made

    return make


@pytest.fixture
def engine(address: str, stack: AsyncExitStack) -> Callable[..., Engine]:
    def make(*args: object, **kwargs: object) -> Engine:
        made = Engine(address, *args, **kwargs)  # type: ignore[arg-type]
        stack.push_async_callback(made.close)
        return made

    return make


@pytest.fixture
def fuzz_seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--fuzz-seconds"))


@pytest.fixture
def fuzz_seed(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--fuzz-seed"))
