"""What a run prints: a line for each check, a summary, JSON, and JUnit's XML."""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import click

from headrace.conformance.runner import AnyCheck, Outcome, Result
from headrace.terminal import print_line

PAGE = "https://github.com/headrace/headrace/blob/main/docs/reference/protocol.md"
_WORDS = {
    Outcome.PASSED: ("PASS", "green"),
    Outcome.FAILED: ("FAIL", "red"),
    Outcome.SKIPPED: ("SKIP", "yellow"),
    Outcome.KNOWN_FAILURE: ("KNOWN", "yellow"),
    Outcome.UNEXPECTED_PASS: ("FAIL", "red"),
}
_WIDTH = 22


def print_check(result: Result) -> None:
    """Prints the line of a check; of one that failed also the rule, the trace and the connector's log."""
    word, colour = _WORDS[result.outcome]
    seconds = "        " if result.outcome is Outcome.SKIPPED else f"{result.seconds:6.1f} s"
    line = f" {result.check.name:{_WIDTH}} {seconds}"
    if result.outcome in (Outcome.SKIPPED, Outcome.KNOWN_FAILURE):
        line += f"  {result.detail}"
    click.secho(f"{word:5}", fg=colour, nl=False)
    print_line(line.rstrip())
    if not result.outcome.fails_the_run:
        return
    print_line(f"      {result.check.fault}")
    print_line(f"      {result.detail}")
    for rule in result.check.rules:
        print_line(f"      {rule}: {link(rule)}")
    for heading, lines in (("the wire", result.trace), ("the connector's standard error", result.log)):
        if lines:
            print_line(f"      {heading}:")
            for text in lines:
                print_line(f"        {text}")


def summary(results: Sequence[Result]) -> str:
    """The last line: `31 passed, 0 failed, 4 skipped (not declared)`."""
    count = {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
    failed = count[Outcome.FAILED] + count[Outcome.UNEXPECTED_PASS]
    text = f"{count[Outcome.PASSED]} passed, {failed} failed"
    if count[Outcome.SKIPPED]:
        text += f", {count[Outcome.SKIPPED]} skipped (not declared)"
    if count[Outcome.KNOWN_FAILURE]:
        text += f", {count[Outcome.KNOWN_FAILURE]} known failures"
    return text


def document(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The results for programs."""
    return [
        {
            "check": result.check.name,
            "outcome": result.outcome.value,
            "duration_s": round(result.seconds, 3),
            "fault": result.check.fault,
            "rules": [{"rule": rule, "link": link(rule)} for rule in result.check.rules],
            "detail": result.detail,
            "trace": list(result.trace),
            "log": list(result.log),
        }
        for result in results
    ]


def junit(kind: str, results: Sequence[Result]) -> bytes:
    """The results as JUnit's XML, which continuous integration reads."""
    failures = sum(result.outcome.fails_the_run for result in results)
    skipped = sum(result.outcome in (Outcome.SKIPPED, Outcome.KNOWN_FAILURE) for result in results)
    suite = ElementTree.Element(
        "testsuite",
        name=f"headrace conformance {kind}",
        tests=str(len(results)),
        failures=str(failures),
        skipped=str(skipped),
        errors="0",
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"conformance.{kind}", name=result.check.name, time=f"{result.seconds:.3f}"
        )
        if result.outcome.fails_the_run:
            failure = ElementTree.SubElement(case, "failure", message=_xml_text(f"{result.check.fault} {result.detail}"))
            failure.text = _xml_text("\n".join((*map(link, result.check.rules), *result.trace, *result.log)))
        elif result.outcome is not Outcome.PASSED:
            ElementTree.SubElement(case, "skipped", message=_xml_text(result.detail))
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def listing(checks: Sequence[AnyCheck]) -> list[dict[str, Any]]:
    """The checks for programs."""
    return [{"check": c.name, "rules": list(c.rules), "needs": list(c.needs), "fault": c.fault} for c in checks]


def _xml_text(text: str) -> str:
    """A text without the control characters that XML cannot have."""
    return "".join(character if character >= " " or character in "\n\t" else "?" for character in text)


def link(rule: str) -> str:
    """The address of a rule, such as `SRC-12`."""
    return f"{PAGE}#{rule.lower()}"
