"""The commands on the page about certificates are run, and a real gateway with what they make is called."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.docs.pages import blocks, codes, table
from tests.gateway.processes import gateway_process

PAGE = "docs/run/certificates.md"
DEADLINE_S = 150.0
USAGES = {"serverAuth": ExtendedKeyUsageOID.SERVER_AUTH, "clientAuth": ExtendedKeyUsageOID.CLIENT_AUTH}


def commands(heading: str) -> list[str]:
    return [block.text for block in blocks(PAGE, "bash") if block.heading == heading]


def run(folder: Path, *parts: str) -> "subprocess.CompletedProcess[str]":
    """Runs blocks of the page one after the other, with the program of this environment."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-euc", "\n".join(parts)],
        cwd=folder,
        env={**plain, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def made(tmp_path: Path) -> Path:
    done = run(tmp_path, *commands("Make them"))
    assert done.returncode == 0, done.stderr
    (tmp_path / "gateway.toml").write_text(blocks(PAGE, "toml")[0].text)
    return tmp_path


def issue() -> str:
    """The function of the page that issues a certificate."""
    return commands("Make them")[1].partition("issue gateway servers")[0]


def test_certificates_have_the_names_and_usages_of_the_table(made: Path) -> None:
    rows = table(PAGE, "Certificates")
    named = {name for row in rows for name in codes(row[0])}
    assert named == {"servers-ca.pem", "gateway.pem", "gateway.key", "clients-ca.pem", "client.pem", "client.key"}
    for row in rows:
        file = made / codes(row[0])[0]
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert is_authority == file.name.endswith("-ca.pem")
        if usage := codes(row[3]):
            found = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            assert list(found) == [USAGES[usage[0]]]
    gateway = x509.load_pem_x509_certificate((made / "gateway.pem").read_bytes())
    names = gateway.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gateway.example", "localhost"]
    assert all((made / name).stat().st_mode & 0o077 == 0 for name in named if name.endswith(".key"))


def test_a_gateway_with_them_answers_clients_with_them_and_a_new_authority_takes_over(made: Path) -> None:
    (call,) = commands("Use them")
    new = "".join(line.removeprefix("   ") for line in _indented("Replace an authority"))
    with gateway_process("--config", made / "gateway.toml") as gateway:
        port = gateway.address.rpartition(":")[2]
        call = call.replace("localhost:7433", f"localhost:{port}")
        until_passes(made, call)
        stranger = call.replace("--tls-cert client.pem --tls-key client.key", "")
        assert run(made, stranger).returncode == 1, "a client needs a certificate"
        posing = call.replace("client.pem", "gateway.pem").replace("client.key", "gateway.key")
        assert run(made, posing).returncode == 1, "a gateway's certificate is none of a client's authority"

        done = run(made, issue(), *commands("Renew them"))
        assert done.returncode == 0, done.stderr
        until_passes(made, call)

        last = "issue gateway-2 servers2 serverAuth DNS:localhost; mv gateway-2.key gateway.key; mv gateway-2.pem gateway.pem"
        done = run(made, issue(), new, last)
        assert done.returncode == 0, done.stderr
        until_passes(made, call.replace("servers-ca.pem", "servers2-ca.pem"))
        until_passes(made, call.replace("servers-ca.pem", "servers-ca-bundle.pem"))
        assert run(made, call).returncode == 1, "the old authority alone is no longer enough"


def until_passes(folder: Path, call: str) -> None:
    """Calls until it succeeds: a connection that begins just then may still get the certificate before."""
    deadline = time.monotonic() + DEADLINE_S
    while (done := run(folder, call)).returncode:
        assert time.monotonic() < deadline, done.stderr


def _indented(heading: str) -> list[str]:
    """The lines of the block in a list under a heading."""
    page = (Path(__file__).parents[2] / PAGE).read_text().partition(f"## {heading}")[2]
    return page.partition("   ```bash\n")[2].partition("   ```")[0].splitlines(keepends=True)
