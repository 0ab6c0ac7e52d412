"""The alert rules and the dashboard: Prometheus accepts them, they fire as they should, and the gateway has their metrics."""

import json
import re
import shutil
import subprocess
from pathlib import Path

from scripts.generate_dashboard import FILE, dashboard, text
from tests.absent import absent
from tests.docs.pages import ROOT, codes, table
from tests.gateway.http_server import get, serve_http

from headrace.gateway import Limits
from headrace.gateway.core import Gateway

FOLDER = ROOT / "docs" / "run" / "monitoring"
RULES, TESTS = ((FOLDER / name).read_text() for name in ("alerts.yaml", "alerts_test.yaml"))
EXPRESSIONS = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
METRIC = re.compile(r"headrace_\w+")


def promtool(*arguments: str, given: str | None = None) -> None:
    """Runs promtool, which must find nothing."""
    program = shutil.which("promtool")
    if program is None:
        absent("there is no promtool; on Debian, it is in the package prometheus")
    done = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def known() -> set[str]:
    """The names of all series that the page of metrics has."""
    names = set()
    page = (ROOT / "docs/reference/metrics.md").read_text()
    for name, kind in re.findall(r"^- `(headrace_\w+)`( \(histogram\))?", page, re.MULTILINE):
        names |= {f"{name}_bucket", f"{name}_sum", f"{name}_count"} if kind else {name}
    return names


def test_prometheus_accepts_the_rules_and_they_fire_as_they_should() -> None:
    promtool("check", "rules", str(FOLDER / "alerts.yaml"))
    promtool("test", "rules", str(FOLDER / "alerts_test.yaml"))


def test_every_alert_is_tested_and_is_on_the_page() -> None:
    tested = set(re.findall(r"alertname: (\w+)\n +exp_alerts:\n", TESTS))
    names = set(re.findall(r"- alert: (\w+)", RULES))
    assert names == tested
    assert names == {codes(row[0])[0] for row in table("docs/run/operate.md", "Alerts and a dashboard")}


def test_rules_and_dashboard_use_metrics_that_there_are() -> None:
    used = {name for text in (*EXPRESSIONS, RULES) for name in METRIC.findall(text)}
    assert used <= known()
    assert len(used) > 25


def test_prometheus_can_read_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    assert len(EXPRESSIONS) > 20
    rules = [
        {"record": f"graph:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(EXPRESSIONS)
    ]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "rules.yaml"))


def test_the_dashboard_is_current_and_its_graphs_do_not_overlap() -> None:
    assert FILE.read_text() == text(), "run: python -m scripts.generate_dashboard"
    cells: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        covered = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & covered, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= covered


async def test_prometheus_accepts_what_a_gateway_answers() -> None:
    async with serve_http(Gateway(Limits())) as address:
        code, metrics = await get(address, "/metrics")
        assert code == 200
        promtool("check", "metrics", given=metrics)
