"""Certificate files that cannot be used: an error names the variable or setting, the file, and what to do."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.sdk.python.test_session import Log

from headrace.conformance.core.certificates import Authority
from headrace.sdk import InvalidSource, Settings, Tls, run, serve
from headrace.sdk._settings import Endpoint
from headrace.sdk.wire import Connection, over_grpc

NOBODY = "127.0.0.1:1"
CA, CERT, KEY = (f"HEADRACE_TLS_{name}" for name in ("CA", "CERT", "KEY"))


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with certificates and keys, and what is none; no variable is set."""
    authority = Authority(tmp_path, "authority")
    pair, _ = authority.issue("connector"), authority.issue("other")
    key = load_pem_private_key(pair.key.read_bytes(), None)
    encryption = BestAvailableEncryption(b"secret")
    (tmp_path / "encrypted.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    (tmp_path / "text").write_text("not PEM\n")
    (tmp_path / "broken.pem").write_text(pair.cert.read_text().replace("MII", "AAA"))
    for name in ("HEADRACE_TLS", CA, CERT, KEY):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


INVALID = {
    "a missing authority": ({CA: "none.pem"}, "{HEADRACE_TLS_CA}: cannot read {folder}/none.pem: No such file .*: name a PEM"),
    "a folder": ({CA: "."}, "{HEADRACE_TLS_CA}: cannot read {folder}: Is a directory: name a PEM file"),
    "no PEM": ({CA: "text"}, "{HEADRACE_TLS_CA}: {folder}/text has no valid certificate in PEM .*: name a file with"),
    "a broken authority": ({CA: "broken.pem"}, "{HEADRACE_TLS_CA}: {folder}/broken.pem has no valid certificate"),
    "a key as authority": ({CA: "connector.key"}, "{HEADRACE_TLS_CA}: {folder}/connector.key has no valid certificate"),
    "a key alone": (
        {KEY: "connector.key"},
        "{HEADRACE_TLS_KEY} is {folder}/connector.key, but {HEADRACE_TLS_CERT} is not set: set",
    ),
    "a certificate alone": ({CERT: "connector.pem"}, "{HEADRACE_TLS_CERT} is .*connector.pem, but {HEADRACE_TLS_KEY} is not set"),
    "a missing certificate": ({CERT: "none.pem", KEY: "connector.key"}, "{HEADRACE_TLS_CERT}: cannot read {folder}/none.pem"),
    "a missing key": ({CERT: "connector.pem", KEY: "none.key"}, "{HEADRACE_TLS_KEY}: cannot read {folder}/none.key"),
    "a pair that is none": (
        {CERT: "text", KEY: "connector.key"},
        "{HEADRACE_TLS_CERT} and {HEADRACE_TLS_KEY}: {folder}/text and {folder}/connector.key are not a certificate and its key",
    ),
    "the key of another": (
        {CERT: "connector.pem", KEY: "other.key"},
        "{HEADRACE_TLS_CERT} and {HEADRACE_TLS_KEY}: .*connector.pem and .*other.key are not .* name files that belong together",
    ),
    "an encrypted key": (
        {CERT: "connector.pem", KEY: "encrypted.key"},
        "{HEADRACE_TLS_CERT} and {HEADRACE_TLS_KEY}: .*encrypted.key are not .* with a key that is not encrypted",
    ),
}
SETTINGS = {CA: "ca", CERT: "certificate", KEY: "key"}


def expected(pattern: str, folder: Path, names: dict[str, str]) -> str:
    """The pattern of an error, which calls the files by names."""
    filled = pattern.replace("{folder}", re.escape(str(folder)))
    for variable, name in names.items():
        filled = filled.replace(f"{{{variable}}}", re.escape(name))
    return filled


@pytest.mark.parametrize("case", INVALID)
async def test_a_file_of_the_environment_that_cannot_be_used_is_named(
    case: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables, pattern = INVALID[case]
    for name, file in variables.items():
        monkeypatch.setenv(name, str(files / file))

    with pytest.raises(InvalidSource, match=expected(pattern, files, {name: name for name in SETTINGS})):
        await serve(Log([b"a"]), gateway=NOBODY)


@pytest.mark.parametrize("case", INVALID)
async def test_a_file_of_the_settings_that_cannot_be_used_is_named(
    case: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, pattern = INVALID[case]
    # Arguments win over the environment.
    monkeypatch.setenv(CA, "another.pem")
    tls = Tls(**{SETTINGS[name]: files / file for name, file in given.items()})

    with pytest.raises(InvalidSource, match=expected(pattern, files, {key: f"Tls.{name}" for key, name in SETTINGS.items()})):
        await serve(Log([b"a"]), gateway=NOBODY, tls=tls)


@pytest.mark.parametrize("text", ["maybe", "2", " 1"])
def test_a_switch_that_is_neither_on_nor_off_ends_the_connector(
    text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADRACE_TLS", text)
    assert run(Log([b"a"]), gateway=NOBODY) == 2
    assert f"HEADRACE_TLS is {text!r}: 1 turns TLS on, 0 leaves it to the files" in caplog.text


@pytest.mark.parametrize(("text", "on"), [("1", True), ("true", True), ("YES", True), ("on", True), ("0", False), ("off", False)])
async def test_the_switch_turns_tls_on(
    text: str, on: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HEADRACE_TLS", text)
    stop = asyncio.Event()
    stop.set()
    await serve(Log([b"a"]), gateway="gateway.example:7433", token="secret", stop=stop)
    assert ("in the clear: use TLS" in caplog.text) is not on


@pytest.mark.parametrize("removed", ["connector.key", "connector.pem", "authority.pem"])
async def test_files_that_are_being_replaced_are_waited_for(files: Path, removed: str, caplog: pytest.LogCaptureFixture) -> None:
    content, stop, attempts = (files / removed).read_bytes(), asyncio.Event(), 0

    @contextlib.asynccontextmanager
    async def transport(endpoint: Endpoint) -> AsyncIterator[Connection]:
        nonlocal attempts
        attempts += 1
        (files / removed).write_bytes(b"" if attempts == 2 else content)
        if attempts == 3:
            stop.set()
        async with over_grpc(endpoint) as connection:
            yield connection

    tls = Tls(files / "authority.pem", files / "connector.pem", files / "connector.key")
    settings = Settings(first_backoff_seconds=0.001)
    await serve(Log([b"a"]), gateway=NOBODY, tls=tls, settings=settings, stop=stop, transport=transport)

    assert attempts == 3
    assert re.search(f"Tls.*{removed} .*; trying again", caplog.text)
