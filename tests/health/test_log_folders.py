"""A log of a deployment without room on its disk: it is named everywhere, and the process runs on, until there is room again."""

from pathlib import Path

from tests.health.test_deployments import NAME, deployed


async def test_a_log_folder_that_is_full(tmp_path: Path) -> None:
    """/dev/full is a disk without room."""
    log = tmp_path / "deploy.run" / "lines.log"
    log.parent.mkdir()
    log.symlink_to("/dev/full")
    part = f"log of process lines of {NAME}"
    async with deployed(tmp_path, HEADRACE_VERBOSE="1") as here:
        await here.names("log-fails", part, "No space left on device", waits=None)
        listed = {one["name"]: one for one in (await here.listed())["processes"]}
        assert listed["lines"]["state"] == "runs"
        assert "No space left on device" in listed["lines"]["log_fault"]
        log.unlink()
        await here.clears(part)
        assert log.read_text()
