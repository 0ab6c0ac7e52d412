from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conformance.kit import be_patient
from tests.gateway.processes import GatewayProcess, gateway_process
from tests.scaffold.projects import BUILD, ROOT, Project, create, require_tools
from tests.sdk.java.conftest import Toolchain as Maven
from tests.sdk.java.conftest import toolchain as toolchain
from tests.sdk.typescript.conftest import package as package


@pytest.fixture(scope="session")
def java_sdk(toolchain: Maven) -> None:
    """The SDK for Java in the repository of the tests; installed again only where it has changed."""
    folder = ROOT / "sdk" / "java"
    sources = [*(folder / "sdk" / "src" / "main").rglob("*.java"), *(ROOT / "proto").rglob("*.proto"), *folder.rglob("pom.xml")]
    jars = list((BUILD / "m2" / "io" / "headrace" / "headrace-sdk").rglob("*.jar"))
    if jars and max(path.stat().st_mtime for path in sources) < max(path.stat().st_mtime for path in jars):
        return
    skip = ("-DskipTests", "-Dspotless.check.skip", "-Dmaven.javadoc.skip")
    done = toolchain.build(folder, "--projects", "protocol,sdk", "--also-make", "install", *skip)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def checked(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], tuple[Project, str]]:
    """Creates a project, and has its own CI check it; returns it with what its CI has printed."""

    def check(kind: str, language: str) -> tuple[Project, str]:
        require_tools(language)
        if language in ("java", "typescript"):
            request.getfixturevalue("java_sdk" if language == "java" else "package")
        folder = tmp_path / "projects"
        folder.mkdir()
        project = create(kind, language, folder)
        be_patient(project.folder / "conformance.toml")
        return project, project.checked_by_ci()

    return check


@pytest.fixture
def gateway() -> Iterator[GatewayProcess]:
    """A gateway that runs."""
    with gateway_process() as process:
        yield process


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """A folder for new projects."""
    folder = tmp_path / "projects"
    folder.mkdir()
    return folder
