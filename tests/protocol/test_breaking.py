"""What `make lint` says to a change of the protocol that would break connectors which are out there."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.absent import absent

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the protos, of the rules for them, and of the script that checks them."""
    if shutil.which("npx") is None:
        absent("buf needs Node.js, which is not installed")
    for folder in ("proto", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return tmp_path


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([project / "scripts" / "lint_protos.sh"], capture_output=True, text=True, timeout=170, check=False)


def test_the_protocol_breaks_nothing(project: Path) -> None:
    result = lint(project)

    assert (result.returncode, result.stdout) == (0, ""), result.stderr


def test_a_removed_field_is_caught(project: Path) -> None:
    proto = project / "proto" / "headrace" / "protocol" / "v1" / "source.proto"
    text = proto.read_text()
    field = "  // The connector's name, such as `file`.\n  string connector = 2;\n"
    assert field in text
    proto.write_text(text.replace(field, ""))

    result = lint(project)

    assert result.returncode != 0
    assert 'Previously present field "2" with name "connector" on message "Hello" was deleted' in result.stdout


def test_an_undocumented_field_is_caught(project: Path) -> None:
    proto = project / "proto" / "headrace" / "protocol" / "v1" / "source.proto"
    comment = "  // The connector's name, such as `file`.\n"
    proto.write_text(proto.read_text().replace(comment, ""))

    result = lint(project)

    assert result.returncode != 0
    assert "should have a non-empty comment" in result.stdout
