"""Each process makes a thing once, for every kind of function, and tears it down before it ends in order."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from headrace.machine.ends import before_end, call_all
from headrace.pipelines import GraphError, Message, OnError, PerProcess, Pipeline, StepError, Trial

PROGRAM = """
import asyncio, sys
from headrace.pipelines import GraphError, Message, PerProcess, Pipeline, Trial

def made():
    print("model made")
    return "model"

model = PerProcess(made, teardown=lambda model: print(f"{model} gone"))

async def client():
    print("client made")
    return "client"

async def close(client):
    await asyncio.sleep(0)
    print(f"{client} gone")

async def call(text, call):
    return f"{text} {call.client}"

app = Pipeline("app")
texts = app.source("n/*", bytes.decode).map(lambda text: f"{text} {model()}", name="model")
texts.map_async(call, setup=client, teardown=close).key_by(lambda text: 0).stateful(
    lambda text, state: f"{text} {model()}", list, name="again"
).sink("out")
for number in range(2):
    trial = Trial(app)
    trial.send(Message(b"1", stream="n/0"), Message(b"2", stream="n/0"))
    print(trial.values("out"))
ENDS
"""


@pytest.mark.parametrize("ends", ["", "raise RuntimeError('no')", "sys.exit(3)"])
def test_what_a_process_has_made_is_torn_down_before_it_ends_in_the_opposite_order(ends: str) -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM.replace("ENDS", ends)], capture_output=True, text=True, timeout=120)
    results = ["[b'1 model client model', b'2 model client model']"] * 2
    assert said.stdout.splitlines() == ["model made", "client made", *results, "client gone", "model gone"], said.stderr


@pytest.mark.parametrize("policy", OnError)
def test_a_setup_that_raises_ends_the_query_under_every_policy_and_is_tried_again_by_the_next_one(policy: OnError) -> None:
    tries = list[int]()

    def made() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not there")
        return "made"

    thing = PerProcess(made)
    app = Pipeline("app", on_error=policy, dead_letters="failed")
    app.source("n/*", bytes.decode).map(lambda text: f"{text} {thing()}", name="use").sink("out")
    trial = Trial(app)
    with pytest.raises(StepError, match=r"step use, .*: NotMade: setup raised ConnectionError: not there"):
        trial.send(Message(b"1", stream="n/0"))
    trial.send(Message(b"1", stream="n/0"))
    assert (trial.values("out"), len(tries)) == ([b"1 made"], 2)


def test_a_process_that_was_forked_makes_its_own_and_tears_down_only_that(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def note(what: str) -> None:
        with log.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")

    thing = PerProcess(lambda: note("made"), teardown=lambda _: note("gone"))
    thing()
    thing()
    child = os.fork()
    if not child:
        try:
            thing()
            call_all()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert log.read_text().splitlines() == [f"made {os.getpid()}", f"made {child}", f"gone {child}"]
    call_all()
    call_all()
    assert log.read_text().splitlines()[3:] == [f"gone {os.getpid()}"]


def test_a_teardown_that_raises_or_hangs_does_not_keep_others_or_the_process(caplog: pytest.LogCaptureFixture) -> None:
    called, hangs = list[str](), threading.Event()
    before_end(lambda: called.append("first"))
    before_end(lambda: 1 // 0)
    before_end(lambda: called.append("last"))
    call_all()
    assert called == ["last", "first"]
    before_end(hangs.wait)
    call_all(0.01)
    assert "has not ended in 0.01 s" in caplog.text
    assert "has failed" in caplog.text
    hangs.set()


def test_a_process_that_ends_starts_no_thread_which_python_may_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    called = list[str]()
    before_end(lambda: called.append("there"))
    monkeypatch.setattr(threading.Thread, "start", refused)
    call_all()
    assert called == ["there"]


def test_what_is_given_must_be_functions_that_can_be_called_so() -> None:
    async def later() -> int:
        return 1

    for setup in (5, None, later, lambda value: value, lambda: (yield 1)):
        with pytest.raises(GraphError, match=r"PerProcess\(...\): setup (must be|is|yields)"):
            PerProcess(setup)  # type: ignore
    for teardown in (5, lambda: 1, lambda one, other: one, lambda made: (yield 1)):
        with pytest.raises(GraphError, match=r"PerProcess\(...\): teardown (must be|is|yields)"):
            PerProcess(list, teardown=teardown)  # type: ignore
