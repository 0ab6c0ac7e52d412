"""Readings of a few boilers, some out of order and some unreadable: `python feed.py > sensors.csv`."""

import random
import sys
from datetime import UTC, datetime, timedelta

_BEGIN = datetime(2024, 5, 1, 12, tzinfo=UTC)
_DEVICES = ("boiler-1", "boiler-2", "boiler-3", "turbine")
_OUT_OF_ORDER_S = 20


def lines(count: int, seed: int = 1) -> list[str]:
    """Returns one reading per second, from each device in turn, up to 20 seconds out of order."""
    choose = random.Random(seed)
    celsius = dict.fromkeys(_DEVICES, 70.0)
    made = []
    for second in range(count):
        device = _DEVICES[second % len(_DEVICES)]
        celsius[device] += choose.uniform(-4, 4) + (75 - celsius[device]) / 20
        time = _BEGIN + timedelta(seconds=second)
        line = f"{time:%Y-%m-%dT%H:%M:%SZ},{device},{celsius[device]:.1f}"
        made.append((second + choose.uniform(0, _OUT_OF_ORDER_S), line if choose.random() < 0.999 else f"{device} is offline"))
    return [line for _, line in sorted(made)]


if __name__ == "__main__":
    print("\n".join(lines(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)))
