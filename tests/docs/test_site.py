"""The documentation site: it contains all pages, and its build fails if a link leads nowhere."""

import shutil
import subprocess
from pathlib import Path

import pytest
from scripts import documentation_site
from tests.docs.pages import PAGES, ROOT

REPOSITORY = "https://github.com/headrace/headrace"
BUILD = ROOT / "scripts" / "build_site.sh"
INSTALLATION_S = 900


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Builds the site as `make docs` does."""
    return subprocess.run([BUILD, *arguments], capture_output=True, text=True, timeout=INSTALLATION_S)


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("write/spark.md", "../reference/logs.md#fields", "../reference/logs.md#fields"),
        ("write/spark.md", "pipelines.md", "pipelines.md"),
        ("write/spark.md", "#options", "#options"),
        ("write/spark.md", "https://spark.apache.org/", "https://spark.apache.org/"),
        ("write/spark.md", "../../README.md#an-application", f"{REPOSITORY}/blob/main/README.md#an-application"),
        ("reference/connectors/kafka.md", "../../write/spark.md", "../../write/spark.md"),
        ("reference/connectors/kafka.md", "../../../CONTRIBUTING.md", f"{REPOSITORY}/blob/main/CONTRIBUTING.md"),
        ("reference/connectors/kafka.md", "../../../examples/", f"{REPOSITORY}/tree/main/examples"),
    ],
)
def test_links_that_leave_the_pages_lead_to_the_repository(page: str, link: str, expected: str) -> None:
    assert documentation_site.rewritten(f"see [it]({link}), now", page) == f"see [it]({expected}), now"


def test_the_index_for_language_models_contains_all_pages() -> None:
    listed = documentation_site.llms_text()
    assert listed.startswith("# Headrace\n\n> Headrace streams messages")
    for page in PAGES:
        if page.startswith("docs/") and page != "docs/README.md" and not page.startswith("docs/internals/decisions/2"):
            assert listed.count(f"{REPOSITORY}/blob/main/{page})") == 1, page


def test_the_site_is_built_and_a_broken_link_is_an_error(tmp_path: Path) -> None:
    built = build("--site-dir", str(tmp_path / "site"))
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    assert "Headrace" in (tmp_path / "site/start/guarantees.html").read_text()
    assert (tmp_path / "site/search/search_index.json").exists()
    assert (tmp_path / "site/llms.txt").read_text() == documentation_site.llms_text()

    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "docs", copy / "docs")
    (copy / "scripts").mkdir()
    for name in ("mkdocs.yml", "README.md", "scripts/documentation_site.py"):
        shutil.copy(ROOT / name, copy / name)
    with (copy / "docs/run/peek.md").open("a") as page:
        page.write("\nSee [there](../reference/logs.md#no-such-heading).\n")
    failed = build("--config-file", str(copy / "mkdocs.yml"))
    assert failed.returncode == 1
    assert "peek.md" in failed.stderr
    assert "no-such-heading" in failed.stderr
