"""`make dist`: every part is built, twice the same, and what a registry would refuse is named before anybody publishes it."""

import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from scripts.dist import __main__ as dist
from scripts.dist.checks import CHECKS, check_maven
from scripts.dist.parts import PARTS, BuildError
from tests.absent import absent
from tests.selection.turns import in_turns

TOOLS = {"python": "git", "maven": "mvn", "npm": "npm", "cargo": "cargo", "go": "go"}

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <groupId>io.headrace</groupId>
  <artifactId>it</artifactId>
  <version>1</version>
  <name>It</name>
  <description>An artifact</description>
  <url>u</url>
  <licenses><license><name>Apache-2.0</name></license></licenses>
  <developers><developer><name>They</name></developer></developers>
  <scm><connection>c</connection><url>u</url></scm>
</project>
"""


@pytest.mark.parametrize("part", in_turns(PARTS, of=len(PARTS)))
def test_a_part_is_built_twice_the_same_and_its_registry_has_no_objection(part: str, tmp_path: Path) -> None:
    if shutil.which(TOOLS[part]) is None:
        absent(f"{TOOLS[part]} not installed, which builds what is published for {part}")
    assert dist.main([part, "--twice", "--into", str(tmp_path)]) == 0
    assert (tmp_path / dist.SUMS).read_text().count(f"  {part}/") == len(dist.digests(tmp_path)) > 0


def repository(folder: Path, pom: str = POM) -> Path:
    """A repository of Maven with one artifact that lacks nothing; returns the folder of its version."""
    version = folder / "io" / "headrace" / "it" / "1"
    version.mkdir(parents=True)
    (version / "it-1.pom").write_text(pom)
    for kind in ("", "-sources", "-javadoc"):
        with zipfile.ZipFile(version / f"it-1{kind}.jar", "w") as jar:
            jar.writestr("io/headrace/It.class", "it")
    checksums(version)
    return version


def checksums(version: Path) -> None:
    """Writes the checksums of all files of a version."""
    for file in [file for file in version.iterdir() if file.suffix in (".pom", ".jar")]:
        for kind in ("md5", "sha1"):
            file.with_name(f"{file.name}.{kind}").write_text(hashlib.new(kind, file.read_bytes()).hexdigest())


def test_an_artifact_that_lacks_nothing_is_accepted(tmp_path: Path) -> None:
    repository(tmp_path)
    check_maven(tmp_path)


@pytest.mark.parametrize("element", ["name", "description", "url", "licenses", "developers", "scm"])
def test_an_element_of_a_pom_that_is_missing_is_named(element: str, tmp_path: Path) -> None:
    lines = [line for line in POM.splitlines() if not line.lstrip().startswith(f"<{element}>")]
    repository(tmp_path, "\n".join(lines))
    with pytest.raises(BuildError, match=rf"it-1\.pom lacks {element}"):
        check_maven(tmp_path)


@pytest.mark.parametrize("kind", ["", "-sources", "-javadoc"])
def test_a_jar_that_is_missing_is_named(kind: str, tmp_path: Path) -> None:
    (repository(tmp_path) / f"it-1{kind}.jar").unlink()
    with pytest.raises(BuildError, match=rf"it-1{kind}\.jar is missing or empty"):
        check_maven(tmp_path)


def test_a_jar_of_nothing_but_a_manifest_is_named(tmp_path: Path) -> None:
    version = repository(tmp_path)
    with zipfile.ZipFile(version / "it-1-javadoc.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
    checksums(version)
    with pytest.raises(BuildError, match=r"it-1-javadoc\.jar is missing or empty"):
        check_maven(tmp_path)


def test_a_wrong_checksum_is_named(tmp_path: Path) -> None:
    (repository(tmp_path) / "it-1.jar.sha1").write_text("0" * 40)
    with pytest.raises(BuildError, match=r"it-1\.jar\.sha1 is missing or wrong"):
        check_maven(tmp_path)


def test_a_repository_without_any_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="contains no POM"):
        check_maven(tmp_path)


def test_a_part_that_fails_does_not_keep_the_others_from_being_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(into: Path) -> None:
        raise BuildError("mvn is not installed")

    monkeypatch.setattr(dist, "PARTS", {"maven": fail, "npm": lambda into: (into / "it.tgz").write_text("it")})
    assert dist.main(["--into", str(tmp_path), "--no-check"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "maven: mvn is not installed\n"
    assert printed.out.endswith("failed: maven\n")
    assert (tmp_path / "SHA256SUMS").read_text() == f"{hashlib.sha256(b'it').hexdigest()}  npm/it.tgz\n"


def test_a_second_build_that_differs_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dist, "PARTS", {"npm": lambda into: (into / "it.tgz").write_bytes(os.urandom(16))})
    monkeypatch.setattr(dist, "CHECKS", {"npm": lambda built: None})
    assert dist.main(["--into", str(tmp_path), "--twice"]) == 1
    assert capsys.readouterr().err == "npm: a second build differs: it.tgz\n"


def test_every_part_has_its_check() -> None:
    assert list(PARTS) == list(CHECKS) == list(TOOLS)
