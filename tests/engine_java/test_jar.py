"""The engine's Java classes: linted, and built to exactly the jar that the engine's package contains."""

from pathlib import Path
from zipfile import ZipFile

import pyspark
from tests.sdk.java.conftest import Toolchain, toolchain

__all__ = ["toolchain"]
ENGINE = Path(__file__).resolve().parents[2] / "engine"
PROJECT = ENGINE / "java"
JAR = ENGINE / "src" / "headrace" / "engine" / "spark" / "headrace-engine.jar"
SPARK_JARS = Path(pyspark.__file__).with_name("jars")


def classes(jar: Path) -> dict[str, bytes]:
    with ZipFile(jar) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}


def test_the_committed_jar_is_what_is_built_against_the_pinned_spark(toolchain: Toolchain, tmp_path: Path) -> None:
    built = toolchain.build(PROJECT, "clean", "package", f"-Dpyspark.jars={SPARK_JARS}", f"-Djar.folder={tmp_path}")
    assert built.returncode == 0, built.stdout
    assert classes(tmp_path / JAR.name) == classes(JAR), "run `make jar` with a JDK 17, and commit the result"
    with ZipFile(JAR) as archive:
        manifest = archive.read("META-INF/MANIFEST.MF").decode().splitlines()
    assert f"Spark-Version: {pyspark.__version__}" in manifest
