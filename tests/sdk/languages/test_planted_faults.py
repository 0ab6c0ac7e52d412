"""The judgement reports faults that are planted in a connector of another language: an example with one line changed."""

from pathlib import Path

import pytest
from tests.exactly_once.episodes import Death
from tests.sdk.languages.deaths import DEATHS
from tests.sdk.languages.programs import LANGUAGES, Command, typescript
from tests.sdk.languages.world import SharedDriver, World
from tests.sdk.typescript.conftest import SDK

from headrace.laboratory.chaos.validator import LOST, VISIBLE_EARLY

pytestmark = pytest.mark.timeout(1800)  # The first builds compile gRPC.


def planted(folder: Path, example: str, line: str, instead: str) -> Command:
    """The command of an example in TypeScript, as it is compiled, with another line in place of one."""
    node, program = typescript().example(example)
    before = program.read_text()
    assert before.count(line) == 1, f"{line} is in {example} {before.count(line)} times"
    (folder / "node_modules" / "@headrace").mkdir(parents=True)
    (folder / "node_modules" / "@headrace" / "sdk").symlink_to(SDK)
    changed = folder / f"{example}.mjs"
    changed.write_text(before.replace(line, instead))
    return [node, changed]


def test_a_sink_that_shows_a_batch_with_its_vote_is_reported(shared_driver: SharedDriver, tmp_path: Path) -> None:
    vote = 'await this.write("prepared", nameOf(transaction), [JSON.stringify(counting)]);'
    sink = planted(tmp_path, "file-sink", vote, f"{vote} await this.commit(transaction);")
    world = World(tmp_path, shared_driver, LANGUAGES["go"].source(), sink, LANGUAGES["typescript"])
    try:
        # The driver, which waits for the answer, cannot commit.
        death = _death("gateway", "gateway.vote.after")
        world.arm(death)
        world.offer()
        world.wait_for_death(death)
        assert VISIBLE_EARLY in {finding.what for finding in world.verdict()}
        world.restart("gateway")
    finally:
        world.rig.dispose()


def test_a_source_that_goes_on_at_the_end_of_its_file_is_reported(shared_driver: SharedDriver, tmp_path: Path) -> None:
    position = "this.#offset = Number(position?.sequence ?? 0n);"
    end = "this.#offset = position === undefined ? 0 : (await stat(path)).size;"
    source = planted(tmp_path, "follow-source", position, end)
    world = World(tmp_path, shared_driver, source, LANGUAGES["rust"].sink(), LANGUAGES["rust"])
    try:
        death = _death("source", "gateway.frame-accepted.after")
        world.arm(death)
        world.offer()
        world.wait_for_death(death)
        missed = set(world.offer())
        world.restart("source")
        # Lost messages never become visible, so the world never rests; what is offered once the source has found the end is.
        later: set[str] = set()

        def a_later_line_is_visible() -> bool:
            later.update(world.offer(1))
            return not later.isdisjoint(world.visible())

        world.wait_for("a later line is visible", a_later_line_is_visible)
        lost = {finding.name for finding in world.verdict() if finding.what == LOST}
        assert missed <= lost
    finally:
        world.rig.dispose()


def _death(role: str, point: str) -> Death:
    (death,) = (death for death in DEATHS[role] if death.point.name == point)
    return death
