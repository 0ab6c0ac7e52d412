"""The shared budget: no session starves, and what is granted is accounted for, in whatever order things happen."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.gateway.core.streams.credit import CreditAccount, CreditPool

BUDGET = 64 * 1024
MESSAGES = 100
SESSIONS = 4
MAX_FRAME = BUDGET // 4


class Sessions:
    """Sessions that send frames as long as they have credit, and hold them."""

    def __init__(self) -> None:
        self.pool = CreditPool(BUDGET, MESSAGES, SESSIONS, MAX_FRAME)
        self.held: dict[CreditAccount, list[tuple[int, int]]] = {}

    def open(self) -> None:
        if len(self.held) < SESSIONS:
            self.held[self.pool.open(lambda size, count: None)] = []

    def close(self, n: int) -> None:
        account = self.nth(n)
        if account is None:
            return
        self.pool.close(account)
        for frame in self.held.pop(account):
            account.release(*frame)

    def send(self, n: int, size: int) -> None:
        account = self.nth(n)
        if account is None:
            return
        if size > account.bytes_left or account.messages_left < 1:
            account.request(1, size)
            return
        account.charge(size, 1)
        account.clear_request(1)
        self.held[account].append((size, 1))

    def release(self, n: int) -> None:
        account = self.nth(n)
        if account is not None and self.held[account]:
            account.release(*self.held[account].pop(0))

    def nth(self, n: int) -> CreditAccount | None:
        return list(self.held)[n % len(self.held)] if self.held else None


steps = st.lists(
    st.one_of(
        st.tuples(st.just("open")),
        st.tuples(st.just("close"), st.integers(0, 3)),
        st.tuples(st.just("send"), st.integers(0, 3), st.integers(1, MAX_FRAME)),
        st.tuples(st.just("release"), st.integers(0, 3)),
    ),
    max_size=80,
)


@settings(max_examples=300, deadline=None)
@given(steps)
@example([("open",), ("open",), ("open",), ("send", 2, 1), ("send", 2, 1), ("release", 2)])
def test_whatever_happens_the_budget_is_kept_and_shared_once_all_is_released(story: list[tuple[str, *tuple[int, ...]]]) -> None:
    sessions = Sessions()
    pool = sessions.pool
    for name, *arguments in story:
        getattr(sessions, name)(*arguments)
        pool.rebalance()
        assert pool.used_bytes == sum(a.bytes_left + a.bytes_held for a in sessions.held)
        assert pool.used_bytes <= pool.shared_bytes + SESSIONS * pool.smallest_window + MAX_FRAME
        for account, frames in sessions.held.items():
            # Less than a quarter of a window is not granted by itself.
            assert (pool.smallest_window - account.bytes_left - account.bytes_held) * 4 < pool._window()
            assert (account.bytes_held, account.messages_held) == (sum(size for size, _ in frames), len(frames))
            assert account.messages_left + account.messages_held <= MESSAGES
    for account, frames in sessions.held.items():
        while frames:
            account.release(*frames.pop())
        pool.rebalance()
    # Others may keep what they were granted and never use it: each frame that waits is sent all the same.
    waiting = {account: account.bytes_requested for account in sessions.held if account.bytes_requested}
    for _ in range(len(waiting)):
        sent = [account for account, size in waiting.items() if account.bytes_left >= size]
        for account in sent:
            account.charge(size := waiting.pop(account), 1)
            account.clear_request(1)
            account.release(size, 1)
        pool.rebalance()
    assert not waiting
    assert all(account.messages_left == MESSAGES for account in sessions.held)


@given(st.integers(2, SESSIONS))
def test_released_frames_of_one_session_are_credit_of_those_that_are_short(count: int) -> None:
    sessions = Sessions()
    for _ in range(count):
        sessions.open()
    for account in sessions.held:
        sessions.held[account].append((account.bytes_left, 1))
        account.charge(account.bytes_left, 1)
    sessions.close(0)
    sessions.pool.rebalance()
    pool = sessions.pool
    short = [a for a in sessions.held if (a.bytes_left + a.bytes_held) * 4 <= pool.largest_window * 3]
    assert not short or (pool.shared_bytes - pool.used_bytes) * 2 < pool.largest_window + 4


@given(st.lists(st.integers(1, MAX_FRAME), min_size=1, max_size=2))
def test_sessions_send_although_idle_ones_were_granted_everything(sizes: list[int]) -> None:
    sessions = Sessions()
    pool = sessions.pool
    for _ in range(2):
        sessions.open()
    for idle in sessions.held:
        idle.request(1, pool.largest_window)
        pool.rebalance()
        idle.clear_request(1)
    assert pool.used_bytes == pool.shared_bytes
    for _ in sizes:
        sessions.open()
    sent = [0] * len(sizes)
    for _ in range(10):
        for n, size in enumerate(sizes):
            sessions.send(n + 2, size)
            pool.rebalance()
        for n in range(len(sizes)):
            account = sessions.nth(n + 2)
            assert account is not None
            sent[n] += len(sessions.held[account])
            sessions.release(n + 2)
            pool.rebalance()
    assert min(sent) >= 3
