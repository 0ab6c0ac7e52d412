"""What is built works where nothing of a checkout is, as `make dist-trial` shows with connectors in all languages."""

import shutil
from pathlib import Path

import pytest
from scripts.dist import __main__ as dist
from tests.absent import absent
from tests.distributions import trial


@pytest.mark.in_turn(1)
@pytest.mark.timeout(1800)
def test_the_demo_an_application_and_connectors_work_without_a_checkout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if missing := [tool for tool in ("cargo", "go", "mvn") if shutil.which(tool) is None]:
        absent(f"{', '.join(missing)} not installed, which build what is published")
    assert dist.main(["python", "maven", "cargo", "go", "--no-check", "--into", str(tmp_path)]) == 0
    trial.main(["python", "java", "--dist", str(tmp_path)])
    assert "all of it works without a checkout" in capfd.readouterr().out
