"""Two drivers on the same checkpoints: one of them ends with an error that says why, and everything is there once."""

from pathlib import Path

import pytest

from headrace.laboratory.chaos import Role, World
from headrace.laboratory.chaos.evidence import JournalReader

OFFERED = 60
REASONS = ("has taken over", "another driver has started this query on the same checkpoint", "now serves another run")

pytestmark = pytest.mark.timeout(600)


@pytest.mark.in_turn(1)
def test_of_two_drivers_one_ends_and_everything_is_there_once(tmp_path: Path) -> None:
    world = World(tmp_path / "world")
    try:
        world.start()
        for pausing in (False, True):
            world.offer(OFFERED)
            before = world.replace_driver(pausing=pausing)
            assert before is not None
            visible = world.progress()
            world.wait_for("the new driver continues", lambda visible=visible: world.progress() > visible)
            world.offer(OFFERED)
            world.wake()
            world.wait_for("the driver before ends", world.is_alone)
            assert world.alive(Role.DRIVER)
            assert world.pid(Role.DRIVER) != before
            world.rest()
            assert [str(finding) for finding in world.verdict()] == []
        errors = [entry["error"] for entry in JournalReader(world.layout.failures).new()]
        assert any(reason in error for error in errors for reason in REASONS), errors
    finally:
        world.dispose()
