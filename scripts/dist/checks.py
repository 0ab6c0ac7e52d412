"""What the registries check of a part of a release, before anybody publishes it."""

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from scripts.dist.parts import GO_MODULE, ROOT, BuildError, run
from scripts.set_version import present

Check = Callable[[Path], None]

_POM = "{http://maven.apache.org/POM/4.0.0}"
_REQUIRED = ("name", "description", "url", "licenses/license/name", "developers/developer/name", "scm/connection", "scm/url")
"""What Maven Central requires of every POM or of its parents, by its page of requirements."""


def check_python(built: Path) -> None:
    """As the package index does: metadata, and the page that it shows."""
    run([sys.executable, "-m", "twine", "--no-color", "check", "--strict", *map(str, sorted(built.iterdir()))], ROOT)


def check_maven(built: Path) -> None:
    """As Maven Central does, save for the signatures, which whoever publishes adds.

    Raises:
        BuildError: A POM lacks an element, or an artifact a jar or its checksums.
    """
    poms = {pom.stem.rpartition("-")[0]: pom for pom in sorted(built.rglob("*.pom"))}
    missing = [f"{built} contains no POM"] if not poms else []
    for pom in poms.values():
        missing += [f"{pom.name} lacks {path}" for path in _REQUIRED if not _has(pom, path, poms)]
        if _text(pom, "packaging") != "pom":
            jars = [pom.with_name(f"{pom.stem}{kind}.jar") for kind in ("", "-sources", "-javadoc")]
            missing += [f"{jar.name} is missing or empty" for jar in jars if not _is_jar(jar)]
    for file in (file for file in built.rglob("*") if file.suffix in (".pom", ".jar")):
        for kind in ("md5", "sha1"):
            checksum = file.with_name(f"{file.name}.{kind}")
            if not checksum.is_file() or checksum.read_text().strip() != hashlib.new(kind, file.read_bytes()).hexdigest():
                missing.append(f"{checksum.name} is missing or wrong")
    if missing:
        raise BuildError("\n".join(missing))


def check_npm(built: Path) -> None:
    """As `npm publish` does before it uploads anything."""
    (package,) = built.glob("*.tgz")
    run(["npm", "publish", "--dry-run", "--access", "public", str(package)], built)


def check_cargo(built: Path) -> None:
    """As `cargo publish` does before it uploads anything; `cargo package` has built the crate already."""
    target = ROOT / ".build" / "rust"
    run(["cargo", "publish", "--dry-run", "--no-verify", "--allow-dirty", "--target-dir", str(target)], ROOT / "sdk" / "rust")


def check_go(built: Path) -> None:
    """As Go's proxy does: the module is found, and a program can use it."""
    version = f"v{present(ROOT)}"
    proxies = run(["go", "env", "GOPROXY"], ROOT).strip()
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            "GOPROXY": f"{built.as_uri()},{proxies}",
            "GONOSUMDB": GO_MODULE,
            "GOFLAGS": "-mod=mod -modcacherw",
            "GOMODCACHE": f"{folder}/modules",
        }
        program = Path(folder) / "program"
        program.mkdir()
        (program / "main.go").write_text(f'package main\n\nimport _ "{GO_MODULE}/headrace"\n\nfunc main() {{}}\n')
        run(["go", "mod", "init", "example.com/program"], program, environ)
        found = run(["go", "list", "-m", f"{GO_MODULE}@{version}"], program, environ).split()
        if found != [GO_MODULE, version]:
            raise BuildError(f"go list finds {found}, not {GO_MODULE} {version}")
        run(["go", "get", f"{GO_MODULE}@{version}"], program, environ)
        run(["go", "build", "-o", "program", "."], program, environ)


CHECKS: dict[str, Check] = {
    "python": check_python,
    "maven": check_maven,
    "npm": check_npm,
    "cargo": check_cargo,
    "go": check_go,
}


def _has(pom: Path, path: str, poms: dict[str, Path]) -> bool:
    """Whether a POM or its parent contains an element."""
    if _text(pom, path):
        return True
    parent = _text(pom, "parent/artifactId")
    return parent in poms and path not in ("name", "description") and _has(poms[parent], path, poms)


def _text(pom: Path, path: str) -> str:
    element = ElementTree.parse(pom).getroot().find("/".join(f"{_POM}{name}" for name in path.split("/")))
    return (element.text or "").strip() if element is not None else ""


def _is_jar(path: Path) -> bool:
    """Whether a file is a jar with more than its manifest."""
    if not path.is_file():
        return False
    with zipfile.ZipFile(path) as jar:
        return any(not name.startswith("META-INF/") and not name.endswith("/") for name in jar.namelist())
