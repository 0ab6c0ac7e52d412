from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from scripts.brokers import RabbitMQ
from tests.connectors.rabbitmq.rig import Query, Rabbit
from tests.gateway.wire import serve as gateway_serving


@pytest.fixture(scope="session")
def rabbitmq(request: pytest.FixtureRequest) -> RabbitMQ:
    """RabbitMQ; another version of it with `on_each_version`."""
    broker: RabbitMQ = request.getfixturevalue(getattr(request, "param", "rabbitmq"))
    return broker


@pytest.fixture(scope="session")
def rabbit(rabbitmq: RabbitMQ) -> Iterator[Rabbit]:
    """What publishers and operators do with RabbitMQ."""
    rabbit = Rabbit(rabbitmq)
    yield rabbit
    rabbit.close()


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A gateway in this process."""
    async with gateway_serving() as (_, address):
        yield address


@pytest.fixture
async def query(address: str) -> AsyncIterator[Callable[..., Query]]:
    """Makes queries, as the gateway sees them."""
    async with AsyncExitStack() as stack:

        def make(*args: object, **kwargs: object) -> Query:
            made = Query(address, *args, **kwargs)  # type: ignore[arg-type]
            stack.push_async_callback(made.close)
            return made

        yield make
