"""What Spark is told from outside the program: by spark-submit, by the environment, and by spark-defaults.conf.

Python's `SparkConf()` is empty until there is a JVM. Where spark-submit has started one, that one is asked. Where a JVM is yet to
be started, and has to be started with the right settings, they are found out as far as that needs; the JVM then knows the rest.
"""

import os
import re
import shlex
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

MASTER = "spark.master"
_PROPERTIES_FILE = "--properties-file"
_OPTIONS = {"--master": MASTER, "--driver-java-options": "spark.driver.extraJavaOptions"}
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[\s=:]\s*(.*?)\s*")


def spark_home() -> Path:
    """Where the Spark is that this process starts."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def has_jvm() -> bool:
    """Whether there is a JVM already: this process had a session before, or was started by spark-submit."""
    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def jvm_settings() -> dict[str, str]:
    """The settings that the JVM was given, which is started where there is none; those of the context where one is active."""
    SparkContext._ensure_initialized()
    context = SparkContext._active_spark_context
    return dict((SparkConf() if context is None else context.getConf()).getAll())


def settings_before_jvm() -> dict[str, str]:
    """The settings that a JVM will have which is started here, apart from those that the program gives it.

    PYSPARK_SUBMIT_ARGS win over spark-defaults.conf, as in spark-submit.
    """
    given = _from_arguments(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    file = given.pop(_PROPERTIES_FILE, None)
    settings = {**_from_file(Path(file) if file else _defaults_file()), **given}
    if MASTER not in settings and os.environ.get("MASTER"):
        settings[MASTER] = os.environ["MASTER"]
    return settings


def _from_arguments(words: list[str]) -> dict[str, str]:
    """What arguments of spark-submit set, as far as it concerns how a session is made."""
    found = {}
    remaining = iter(words)
    for word in remaining:
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option not in {"--conf", "-c", _PROPERTIES_FILE, *_OPTIONS}:
            continue
        value = value if equals else next(remaining, "")
        if option in ("--conf", "-c"):
            name, _, value = value.partition("=")
            found[name.strip()] = value.strip()
        else:
            found[_OPTIONS.get(option, option)] = value
    return found


def _defaults_file() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf", "spark-defaults.conf")


def _from_file(file: Path) -> dict[str, str]:
    """The settings in a file of Java properties; none where there is no such file, which Spark itself reports if it must."""
    if not file.is_file():
        return {}
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return {match[1]: match[2] for match in map(_PROPERTY.fullmatch, lines) if match is not None}
