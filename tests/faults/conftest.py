from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.faults.rig import Driver, Rig


@pytest.fixture(scope="session")
def shared_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver for all tests that do not kill theirs, since one takes long to start."""
    driver = Driver("shared-driver", tmp_path_factory.mktemp("driver"))
    driver.start()
    yield driver
    driver.dispose()


@pytest.fixture
def rig(tmp_path: Path, shared_driver: Driver) -> Iterator[Callable[[str], Rig]]:
    """Makes a rig, whose gateway has the given configuration and whose queries run on the shared driver unless it has its own."""
    if not shared_driver.alive:
        shared_driver.start()
    with ExitStack() as stack:

        def make(config: str = "") -> Rig:
            made = Rig(tmp_path, config, shared_driver)
            stack.callback(made.dispose)
            return made

        yield make
