"""`python -m headrace.simulation`: runs schedules, and reports schedules that violate an invariant."""

import argparse
import contextlib
import dataclasses
import functools
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.simulation.schedule import Schedule

EACH = "each"
"""The profile of a schedule depends on its seed."""
MIXED = "mixed"
"""So does its scale."""
HASH_SEED = "0"
"""Sets of text have the same order in each run only with the same PYTHONHASHSEED."""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the arguments."""
    from headrace.simulation.drawing import ON_REQUEST, PROFILES
    from headrace.simulation.scale import SCALES

    found = argparse.ArgumentParser(prog="python -m headrace.simulation", description=__doc__)
    found.add_argument("--seeds", type=int, default=100, metavar="N", help="how many schedules to run (default: 100)")
    found.add_argument("--first", type=int, default=1, metavar="SEED", help="the first seed (default: 1)")
    found.add_argument("--seed", metavar="SEED", help="run the schedule of this seed only")
    found.add_argument("--schedule", type=Path, metavar="FILE", help="run the schedule in a JSON file only")
    found.add_argument(
        "--profile",
        choices=(EACH, *PROFILES, *ON_REQUEST),
        default=EACH,
        help="what they concentrate on (default: the seed decides)",
    )
    found.add_argument(
        "--scale",
        choices=(MIXED, *SCALES),
        default=MIXED,
        help="how large their worlds are (default: the seed decides, three of four are small)",
    )
    found.add_argument("--seconds", type=float, metavar="S", help="begin no schedule after this many seconds")
    found.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="how many processes run schedules (default: 1; 0: one on each core)"
    )
    found.add_argument("--progress", type=Path, metavar="FILE", help="keep what ran in a file, and continue after it")
    found.add_argument("--trace", action="store_true", help="print what happens")
    found.add_argument("--as-drawn", action="store_true", help="do not make the schedules that fail smaller")
    found.add_argument("--json", action="store_true", help="print the schedules that fail as JSON")
    return found


def main() -> int:
    """Runs the schedules that the arguments name; returns 1 if one of them fails, and 0 otherwise."""
    from headrace.simulation.drawing import PROFILES, draw
    from headrace.simulation.minimising import minimised
    from headrace.simulation.progress import Progress
    from headrace.simulation.scale import SCALES, scale_of
    from headrace.simulation.schedule import Schedule
    from headrace.simulation.simulating import Result, simulate

    options = parser().parse_args()

    def drawn(seed: str) -> Schedule:
        profile = options.profile
        if profile == EACH:
            profile = PROFILES[zlib.crc32(seed.encode()) % len(PROFILES)]
        return draw(seed, profile, scale_of(seed) if options.scale == MIXED else SCALES[options.scale])

    def schedules() -> Iterator[Schedule]:
        if options.schedule is not None:
            yield Schedule.from_json(options.schedule.read_text())
        elif options.seed is not None:
            yield drawn(options.seed)
        else:
            for number in range(options.first + progress.counts["schedules"], options.first + options.seeds):
                yield drawn(str(number))

    def show(result: Result) -> None:
        drawn_as = f"--profile {result.schedule.profile} --scale {result.schedule.scale}"
        print(f"seed {result.schedule.seed} {drawn_as}: {', '.join(sorted(result.kinds)) or 'holds'}")
        for violation in result.violations:
            print(f"  {violation.kind}: {violation.text}")
        if result.violations and not options.as_drawn:
            small = minimised(result.schedule, result.violations[0])
            result = simulate(small, traced=True)
            print("  a smaller schedule that fails in the same way:")
            for line in (*describe(small), *result.story):
                print(f"    {line}")
        if options.json:
            print(result.schedule.to_json())
        sys.stdout.flush()

    which = {name: getattr(options, name) for name in ("first", "profile", "scale")}
    try:
        progress = Progress(which, options.progress)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    began, before, jobs = time.monotonic(), progress.counts["schedules"], options.jobs or os.cpu_count() or 1
    judge = functools.partial(simulate, traced=options.trace)
    with contextlib.ExitStack() as stack:
        if jobs > 1:
            # Each schedule sees only itself, so which process runs it makes no difference.
            results: Iterator[Result] = iter(stack.enter_context(multiprocessing.Pool(jobs)).imap(judge, schedules()))
        else:
            results = map(judge, schedules())
        for result in results:
            progress.add(result)
            if options.trace:
                print("\n".join(result.lines))
            if result.violations or options.seed is not None:
                show(result)
            if options.seconds is not None and time.monotonic() - began > options.seconds:
                break
    progress.save()
    counts, seconds = progress.counts, progress.seconds
    lately = (counts["schedules"] - before) / (time.monotonic() - began)
    rate = f"{lately:.1f} a second, {counts['schedules'] / (seconds['processor'] or 1):.1f} a processor second"
    print(
        f"{counts['schedules']} schedules ({rate}): {seconds['virtual']:.0f} virtual seconds, {counts['callbacks']} callbacks, "
        f"{counts['faults']} faults, {counts['commits']} commits, {counts['rows']} rows; {len(progress.failed)} failed"
    )
    return 1 if progress.failed else 0


def describe(schedule: "Schedule") -> Iterator[str]:
    """Yields lines about what a schedule consists of."""
    for source in schedule.sources:
        kind = "queue" if source.redelivers else "feed" if source.resumes else "log that prunes" if source.prunes else "log"
        yield f"{source.name}: a {kind} of {source.partitions} partition(s)"
    for sink in schedule.sinks:
        yield f"{sink.name}: a {sink.mode} sink of {sink.instances} instance(s)"
    for query in schedule.queries:
        first = f" ({', '.join(query.tables)} first)" if query.tables else ""
        yield f"{query.name}: reads {', '.join(query.sources)}{first}, writes {', '.join(query.sinks)}"
    plain = dataclasses.asdict(type(schedule.conditions)())
    unusual = {name: value for name, value in dataclasses.asdict(schedule.conditions).items() if value != plain[name]}
    yield "conditions: " + ", ".join(f"{name}={value}" for name, value in unusual.items())


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        os.environ["PYTHONHASHSEED"] = HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "headrace.simulation", *sys.argv[1:]])
    sys.exit(main())
