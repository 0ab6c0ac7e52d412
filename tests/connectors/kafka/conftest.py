from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts.brokers import Kafka
from tests.absent import absent
from tests.brokers.plugin import start_for_tests
from tests.connectors.kafka import rig
from tests.connectors.kafka.rig import Log, Query
from tests.connectors.kafka.secured import Endpoint, SecuredKafka
from tests.gateway.certificates import Authority
from tests.gateway.wire import serve as gateway_serving

from headrace.connectors.kafka import _connection


@pytest.fixture(scope="session")
def log(kafka: Kafka) -> Iterator[Log]:
    """What producers and administrators do with Kafka."""
    log = Log(kafka.url)
    yield log
    log.close()


@pytest.fixture
def topic(log: Log) -> str:
    """A topic of one partition that nobody else uses."""
    return log.create()


@pytest.fixture(params=rig.CLIENTS)
def each_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with the connectors on each client library."""
    if request.param == "librdkafka" and find_spec("confluent_kafka") is None:
        absent("confluent-kafka is not installed; run: make setup-dev")
    monkeypatch.setattr(rig, "CLIENT", request.param)
    return str(request.param)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are away are looked for again and again, rather than every five seconds."""
    monkeypatch.setattr(_connection, "MAX_BACKOFF_S", 0.5)


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


@pytest.fixture(scope="session")
def secured(brokers_folder: Path, pytestconfig: pytest.Config) -> Iterator[SecuredKafka]:
    """A broker whose listeners want a login."""
    folder = brokers_folder / "secured"
    folder.mkdir()
    SecuredKafka.authority = Authority(folder, "authority")
    broker = start_for_tests(SecuredKafka, folder, pytestconfig)
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def admin(secured: SecuredKafka) -> Iterator[Log]:
    """What administrators do with it."""
    log = Log(secured.url)
    yield log
    log.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """An endpoint for tokens."""
    with Endpoint().serving() as endpoint:
        yield endpoint
