"""The gateway that the tests of this folder share."""

from collections.abc import Iterator

import pytest
from tests.health.site import OwnSite, site


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    """A gateway for all tests of a session. Each of them uses names of its own, and ends what it has begun."""
    with site(tmp_path_factory.mktemp("site")) as gateway:
        yield gateway
