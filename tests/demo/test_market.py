"""The demo of Market Spread: its lines while it runs, and its check of the rejections."""

import io
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from headrace.laboratory.demo.market import Check, Rejected, check, example_folder, load_feed, read_rejected
from headrace.laboratory.demo.market_progress import MarketProgress
from headrace.laboratory.demo.view import LineView, ScreenView, View

ORDER = Rejected(2, 7, b"000042", b" NFX", 640.0, 32.5, 32.8351, 32.8978, 1_472_831_272_250)


def _progress(elapsed_s: float, quotes: int, orders: int, committed: int, *rejected: Rejected) -> MarketProgress:
    return MarketProgress(
        elapsed_s=elapsed_s,
        total=2000,
        received=quotes + orders,
        quotes=quotes,
        orders=orders,
        committed=committed,
        rate=committed / 2,
        ack_latency_s=0.25 if committed else None,
        rejected=len(rejected),
        latest=rejected,
        attached=elapsed_s > 1,
    )


def _shown(view: View) -> None:
    with view:
        view.show(_progress(0.0, 0, 0, 0))
        view.show(_progress(1.5, 0, 0, 0))
        view.show(_progress(3.0, 1000, 0, 0))
        view.show(_progress(4.0, 1000, 1000, 1500, ORDER))
        view.tell(_progress(5.0, 1000, 1000, 2000, ORDER), "the streams have ended")


def test_a_log_gets_a_line_a_second() -> None:
    out = io.StringIO()
    _shown(LineView(Console(file=out, highlight=False, width=200)))
    assert out.getvalue().splitlines() == [
        "  0.0 s  Spark is starting",
        "  1.5 s  Spark is attached",
        "  3.0 s  quotes     1,000  orders         0  committed   0%          0/s  ack latency        -  rejected    0",
        "  4.0 s  quotes     1,000  orders     1,000  committed  75%        750/s  ack latency   250 ms  rejected    1",
        "  5.0 s  the streams have ended",
    ]


def test_a_terminal_shows_rates_and_rejected_orders() -> None:
    out = io.StringIO()
    _shown(ScreenView(Console(file=out, force_terminal=True, highlight=False, width=100, height=40)))
    text = out.getvalue()
    for shown in ("Spark is starting", "750/s", "250 ms", "NFX", "000042", "sell", "640", "32.84", "32.90", "6.27 cents"):
        assert shown in text


def test_results_are_read_as_they_become_whole(tmp_path: Path) -> None:
    record = bytes.fromhex("00000037") + b"\x02\x00\x00\x00\x07000042 NFX" + bytes(40)
    assert read_rejected(tmp_path / "not-there-yet") == []
    (tmp_path / "rejected-000001.bin").write_bytes(record + record[:30])
    assert [one.order_id for one in read_rejected(tmp_path)] == [b"000042"]
    (tmp_path / "rejected-000001.bin").write_bytes(record * 3)
    assert len(read_rejected(tmp_path, after=1)) == 2


@pytest.fixture(scope="module")
def rejected() -> list[Rejected]:
    """The orders that a run over 200,000 rejects."""
    feed = load_feed(example_folder())
    market = feed.Feed()
    bad = set(market.names[market.rejecting].tolist())
    found = []
    for block in range(20):
        for _, value in (pair for pair in market.orders(block).messages() if pair[0] in bad):
            side, account, order_id, symbol, quantity, price = _fields(value)
            found.append(Rejected(side, account, order_id, symbol, quantity, price, 10.0, 10.06, 0))
    assert len(found) == 3
    return found


def _fields(value: bytes) -> tuple[int, int, bytes, bytes, float, float]:
    side, account, order_id, symbol, quantity, price = struct.unpack(">xBI6s4sdd21x", value)
    return side, account, order_id, symbol, quantity, price


def test_a_right_result_is_equal(rejected: list[Rejected]) -> None:
    found = check(rejected[::-1], load_feed(example_folder()), 200_000)
    assert found == Check(3, 0, 0)
    assert found.equal


def test_each_wrong_result_is_found(rejected: list[Rejected]) -> None:
    feed = load_feed(example_folder())
    assert check(rejected[1:], feed, 200_000) == Check(3, 1, 0)
    assert check([*rejected, rejected[0]], feed, 200_000) == Check(3, 0, 1)
    assert check([replace(rejected[0], quantity=1.0), *rejected[1:]], feed, 200_000) == Check(3, 1, 1)
    assert check([replace(rejected[0], offer=10.01), *rejected[1:]], feed, 200_000) == Check(3, 0, 1)
    assert not any(check(wrong, feed, 200_000).equal for wrong in (rejected[1:], [*rejected, rejected[0]]))
