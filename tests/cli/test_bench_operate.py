"""`headrace bench operate`: its names, and what becomes of faults that are named, that are not, and that cannot be made."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.json_shape import result_of

from headrace.laboratory.bench import operate, operate_names
from headrace.laboratory.bench.faults import measure
from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.commands.bench import bench


def test_the_names_are_those_of_the_parts_and_of_the_faults_in_their_order() -> None:
    assert {*operate_names.PARTS} == {*operate.PARTS, operate_names.FAULTS_PART}
    assert [name for site in measure.SITES for name in site.faults] == [*operate_names.FAULTS]
    assert not {*operate_names.PARTS} & {*operate_names.FAULTS}


def test_the_names_are_listed_for_people_and_for_programs() -> None:
    listed = CliRunner().invoke(bench, ["operate", "--list"])
    assert listed.exit_code == 0
    assert {*operate_names.PARTS, *operate_names.FAULTS} <= {*listed.output.split()}
    result = result_of(CliRunner().invoke(bench, ["operate", "--list", "--json"]).output)
    assert result["parts"] == [*operate_names.PARTS]
    assert {fault["name"]: fault["fault"] for fault in result["faults"]} == operate_names.FAULTS


def test_the_faults_and_what_needs_a_browser_run_only_if_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def run(parts: tuple[str, ...], quick: bool, say: object, faults: tuple[str, ...]) -> tuple[list[object], dict[str, Any]]:
        asked.append(parts)
        return [], {"left_out": {}}

    monkeypatch.setattr(operate, "run", run)
    monkeypatch.setattr("headrace.laboratory.commands.bench_report.end_at_sigterm", lambda: None)
    for options in ([], ["--quick"]):
        assert CliRunner().invoke(bench, ["operate", *options]).exit_code == 0
    whole, quick = asked
    assert [part for part in quick if part not in whole] == [operate_names.FAULTS_PART]
    assert not {*quick} & {*operate_names.NAMED_PARTS}
    assert {"traces_overhead", "false_alarms"} <= {*whole}


def test_a_name_that_does_not_exist_is_refused_with_the_names_that_do() -> None:
    done = CliRunner().invoke(bench, ["operate", "--only", "nonsense"])
    assert done.exit_code == 2
    assert "broker_stopped" in done.output


class Sites:
    """A site whose faults are listed as soon as they are injected, but for faults that a test conceals or keeps."""

    def __init__(self, *names: str, conceals: str = "", keeps: str = "", lacks: Mapping[str, str] | None = None) -> None:
        self.listed: dict[str, dict[str, str]] = {}
        self.runs = 0
        self.said: list[str] = []
        self.left_out: dict[str, str] = {}
        self._names, self._conceals, self._keeps = names, conceals, keeps
        self.site = Site(names, self._run, lambda: lacks or {})

    def figures(self, *only: str) -> dict[str, float]:
        """The measures of the part, by the names of the figures."""
        measured = measure.readyz_names_cause(None, self.said.append, False, only=only, left_out=self.left_out)  # type: ignore[arg-type]
        return {figure.name: figure.value for figure in measured}

    @contextmanager
    def _run(self, _: object, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
        self.runs += 1
        yield "url", [self._fault(name) for name in self._names if name in names]

    def _fault(self, name: str) -> Fault:
        def inject() -> None:
            kind = "another" if name == self._conceals else name
            self.listed[name] = {"part": f"part {name}", "kind": kind, "cause": "its cause", "root": f"part {name}"}

        def repair() -> None:
            if name != self._keeps:
                del self.listed[name]

        return Fault(name, frozenset({name}), "part ", inject, repair, "cause", "part")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a fault that is never named, or never clear, given up at once."""
    monkeypatch.setattr(measure, "_DEADLINE_S", 0.0)


def use(monkeypatch: pytest.MonkeyPatch, *sites: Sites) -> None:
    monkeypatch.setattr(measure, "SITES", tuple(one.site for one in sites))
    monkeypatch.setattr(measure, "problems", lambda _: [problem for one in sites for problem in one.listed.values()])


def test_each_fault_is_measured_and_the_worst_ones_are_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = Sites("one", "two")
    use(monkeypatch, sites)
    figures = sites.figures()
    assert list(figures) == [
        "names_one_s",
        "clears_one_s",
        "names_two_s",
        "clears_two_s",
        "faults_named",
        "readyz_names_cause_s",
        "readyz_clears_s",
    ]
    assert figures["faults_named"] == 2
    assert figures["readyz_names_cause_s"] == max(figures["names_one_s"], figures["names_two_s"])
    assert sites.left_out == {}


def test_only_sites_of_the_faults_that_are_wanted_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Sites("one", "other"), Sites("two")
    use(monkeypatch, one, two)
    assert [name for name in one.figures("other") if name.startswith("names_")] == ["names_other_s"]
    assert (one.runs, two.runs) == (1, 0)


@pytest.mark.usefixtures("quick")
def test_a_fault_that_is_not_named_is_a_figure_and_a_target_that_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = Sites("one", "two", conceals="one")
    use(monkeypatch, sites)
    measured = list(measure.readyz_names_cause(None, sites.said.append, False, left_out=sites.left_out))  # type: ignore[arg-type]
    by_name = {figure.name: figure for figure in measured}
    assert (by_name["faults_named"].value, by_name["faults_named"].met) == (1, False)
    assert "another" in "".join(sites.said)
    assert "names_two_s" in by_name


@pytest.mark.usefixtures("quick")
def test_faults_of_a_site_that_is_not_well_are_named_and_the_other_sites_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sick, well = Sites("one", "two", keeps="one"), Sites("three")
    monkeypatch.setattr(measure, "SITES", (sick.site, well.site))
    monkeypatch.setattr(measure, "problems", lambda _: [*(sick if not well.runs else well).listed.values()])
    figures = sick.figures()
    assert figures.keys() >= {"names_one_s", "names_three_s"}
    assert figures["faults_named"] == 2
    assert sick.left_out.keys() == {"two"}
    assert "one was not clear" in sick.left_out["two"]


def test_a_fault_that_this_machine_cannot_make_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = Sites("one", "two", lacks={"two": "root"})
    use(monkeypatch, sites)
    assert sites.figures()["faults_named"] == 1
    assert sites.left_out == {"two": "this machine lacks root"}
    assert any("two" in line and "root" in line for line in sites.said)


@pytest.mark.parametrize(("only", "code"), [("driver_frozen", 3), ("readyz_names_cause", 0)])
def test_a_fault_that_was_asked_for_and_left_out_is_an_error(only: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def run(parts: tuple[str, ...], quick: bool, say: object, faults: tuple[str, ...]) -> tuple[list[object], dict[str, Any]]:
        asked.update(parts=parts, faults=faults)
        return [], {"left_out": {"driver_frozen": "this machine lacks root"}}

    monkeypatch.setattr(operate, "run", run)
    monkeypatch.setattr("headrace.laboratory.commands.bench_report.end_at_sigterm", lambda: None)
    done = CliRunner().invoke(bench, ["operate", "--only", only])
    assert done.exit_code == code
    assert ("driver_frozen was left out: this machine lacks root" in done.output) == (code == 3)
    assert asked == {"parts": ("readyz_names_cause",), "faults": () if only == "readyz_names_cause" else (only,)}
