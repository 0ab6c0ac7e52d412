"""Draws how many frauds the models find, and how many alarms are right: `python plot.py cards.jsonl scores learning.svg`."""

import sys
from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from msgspec.json import Decoder
from payments import Payment, Score, Verdict

matplotlib.rcParams["svg.hashsalt"] = "fraud"  # the same file for the same scores
PART = 2_000
"""Payments for each point of the plot."""


def frauds_of(lines: Iterable[str]) -> dict[int, bool]:
    """Returns which payments are frauds, as far as there are verdicts."""
    decoder: Decoder[Payment | Verdict] = Decoder(Payment | Verdict)
    return {event.payment: event.fraud for event in map(decoder.decode, lines) if isinstance(event, Verdict)}


def shares(scores: Iterable[Score], frauds: Mapping[int, bool]) -> list[tuple[int, float, float]]:
    """Returns for each part of the payments its first, the share of frauds held, and the share of frauds among those held."""
    parts: dict[int, list[Score]] = {}
    for score in scores:
        if score.payment in frauds:
            parts.setdefault(score.payment // PART * PART, []).append(score)
    found = []
    for first, part in sorted(parts.items())[:-1]:  # the last one lacks verdicts
        held, stolen = [one for one in part if one.held], sum(frauds[one.payment] for one in part)
        right = sum(frauds[one.payment] for one in held)
        found.append((first, right / max(stolen, 1), right / len(held) if held else nan))
    return found


def main(fed: str, folder: str, path: str) -> None:
    """Reads the events and the files of the sink, and draws them."""
    lines = [line for file in sorted(Path(folder).glob("scores-*")) for line in file.read_text().splitlines()]
    points = shares(map(Decoder(Score).decode, lines), frauds_of(Path(fed).read_text().splitlines()))
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    axes = figure.subplots()
    payments = [first for first, _, _ in points]
    axes.plot(payments, [held for _, held, _ in points], color="#0072b2", marker="o", label="frauds that were held back")
    axes.plot(payments, [right for _, _, right in points], color="#d55e00", marker="s", label="held payments that were frauds")
    axes.set(xlabel="payments", ylabel="share", ylim=(0, 1.05))
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.85))
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:4])
