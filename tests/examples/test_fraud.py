"""Models that learn online give the scores of a plain loop, for any batches and restarts."""

import os
import shutil
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.json import decode, encode
from tests.deploy.test_processes import is_running, pids, running
from tests.examples.loading import Example

from headrace.pipelines import Message, Trial

EVENTS = 1_500
EXAMPLE = Example("fraud")
DEPLOYMENT = """
[gateway]
listen = "127.0.0.1:0"

[connectors.cards]
connector = "file"
path = "cards.jsonl"
source = "cards"

[connectors.scores]
connector = "file-sink"
path = "scores"
sink = "scores"
format = "lines"

[application.fraud]
app = "app.py"
master = "local[2]"
conf = { "spark.ui.enabled" = false }
"""
WITHIN_S = 420.0


def of_a_plain_loop(count: int) -> list[Any]:
    cards: dict[str, Any] = {}
    judged = (EXAMPLE.app.judge(one, cards.setdefault(one.card, EXAMPLE.app.Card())) for one in EXAMPLE.feed.events(count))
    return [score for score in judged if score is not None]


@settings(max_examples=8)
@given(ends=st.lists(st.integers(0, EVENTS), max_size=6), restarts=st.booleans())
def test_scores_do_not_depend_on_batches_and_restarts(ends: list[int], restarts: bool) -> None:
    lines, trial = EXAMPLE.feed.lines(EVENTS), Trial(EXAMPLE.app.app)
    bounds = [0, *sorted(ends), len(lines)]
    for start, end in pairwise(bounds):
        trial.send(*(Message(line.encode(), stream="cards/0") for line in lines[start:end]))
        if restarts:
            trial.restart()
    scores = [decode(value, type=EXAMPLE.payments.Score) for value in trial.values("scores")]
    by_payment = {score.payment: score for score in scores}
    assert len(by_payment) == len(scores)
    expected = of_a_plain_loop(EVENTS)
    assert [by_payment[score.payment] for score in expected] == expected


def test_the_models_learn_and_the_plot_shows_it(tmp_path: Path) -> None:
    count = 16_000
    lines, scores = EXAMPLE.feed.lines(count), of_a_plain_loop(count)
    points = EXAMPLE.plot.shares(scores, EXAMPLE.plot.frauds_of(lines))
    assert points[0][1] < 0.05, "a model that knows nothing holds nothing back"
    assert points[-1][1] > 0.1
    assert points[-1][2] > 0.9
    fed, folder, plot = tmp_path / "cards.jsonl", tmp_path / "scores", tmp_path / "learning.svg"
    folder.mkdir()
    fed.write_text("\n".join(lines))
    (folder / "scores-1.lines").write_bytes(b"\n".join(map(encode, scores)))
    EXAMPLE.plot.main(str(fed), str(folder), str(plot))
    assert "<svg" in plot.read_text()


@pytest.mark.in_turn(4, 6)
@pytest.mark.timeout(1200)
async def test_models_continue_after_a_driver_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "fraud"
    shutil.copytree(EXAMPLE.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "deploy.toml").write_text(DEPLOYMENT)
    lines, half = EXAMPLE.feed.lines(EVENTS), EVENTS // 2
    fed = folder / "cards.jsonl"
    fed.write_text("".join(f"{line}\n" for line in lines[:half]))
    async with running(folder) as run:
        before = await run.until(lambda document: is_running(document) and document["acknowledged"] == half, WITHIN_S)
        os.kill(pids(before)["fraud"], signal.SIGKILL)
        with fed.open("a") as file:
            file.writelines(f"{line}\n" for line in lines[half:])
        await run.until(lambda document: is_running(document) and document["acknowledged"] == len(lines), WITHIN_S)
        run.process.terminate()
        assert await run.end() == 0
    written = [line for path in (folder / "scores").glob("scores-*") for line in path.read_bytes().splitlines()]
    scores = sorted((decode(line, type=EXAMPLE.payments.Score) for line in written), key=lambda score: score.payment)
    assert scores == of_a_plain_loop(EVENTS)
