from collections.abc import Mapping

import pytest
from tests.distributions.wheels import Wheel, build


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Wheel]:
    """All distributions, built once for the tests of a session."""
    return build(tmp_path_factory.mktemp("wheels"))
