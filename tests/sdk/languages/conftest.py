from collections.abc import Iterator

import pytest
from tests.sdk.languages.world import SharedDriver


@pytest.fixture(scope="session")
def shared_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDriver]:
    """The driver that all worlds share, since one takes long to start."""
    driver = SharedDriver(tmp_path_factory.mktemp("languages"))
    yield driver
    driver.process.dispose()
