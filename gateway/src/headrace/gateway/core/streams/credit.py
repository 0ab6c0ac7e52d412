"""Credit: how many bytes and messages each session may have outstanding, from one budget for all sessions."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.contract.counts import counted
from headrace.gateway.core.base.errors import CreditOverrun


@dataclass(slots=True, eq=False)
class CreditAccount:
    """The credit of one session: how much it may still send, and how much is outstanding."""

    pool: "CreditPool"
    grant: Callable[[int, int], None]
    """Sends bytes and messages of credit to the session."""
    bytes_left: int = 0
    messages_left: int = 0
    bytes_held: int = 0
    messages_held: int = 0
    bytes_requested: int = 0
    """The size in bytes of the largest frame that waits for credit."""
    _requested: dict[int, int] = field(default_factory=dict)
    """The size in bytes of each frame that waits for credit, by the id of its stream."""

    def charge(self, size: int, count: int) -> None:
        """Charges a frame against the credit of the session.

        Raises:
            CreditOverrun: the remaining credit is too small.
        """
        if size > self.bytes_left or count > self.messages_left:
            raise CreditOverrun(
                f"credit overrun: a frame of {size} bytes and {counted(count, 'message')} with credit left for "
                f"{self.bytes_left} bytes and {counted(self.messages_left, 'message')}; wait for Credit before sending",
                limit="bytes" if size > self.bytes_left else "messages",
                maximum=self.bytes_left if size > self.bytes_left else self.messages_left,
                actual=size if size > self.bytes_left else count,
            )
        self.bytes_left -= size
        self.messages_left -= count
        self.bytes_held += size
        self.messages_held += count

    def release(self, size: int, count: int) -> None:
        """Notes that a frame is no longer held; the next `rebalance` of the pool returns its credit."""
        self.bytes_held -= size
        self.messages_held -= count
        self.pool.released(self, size)

    def move(self, other: "CreditAccount", size: int, count: int) -> None:
        """Charges a held frame to another account, such as `CreditPool.held_back`. The budget holds it all the same."""
        self.bytes_held -= size
        self.messages_held -= count
        other.bytes_held += size
        other.messages_held += count
        if self in self.pool.accounts:
            self.pool.unbalanced[self] = None

    def request(self, stream_id: int, size: int) -> None:
        """Requests credit for one frame of a stream that exceeds the remaining credit."""
        self._requested[stream_id] = size
        self.bytes_requested = max(self._requested.values())
        self.pool.unbalanced[self] = None

    def clear_request(self, stream_id: int) -> None:
        """Clears the request of a stream, because the frame has arrived or never will."""
        if self._requested.pop(stream_id, 0) == self.bytes_requested:
            self.bytes_requested = max(self._requested.values(), default=0)

    def default_stream_grant(self) -> tuple[int, int]:
        """Returns how many bytes and messages to grant a stream that does not report how much it has ready.

        Other streams may spend the credit that its frame leaves unused, so the grant is zero once the session exceeds its window.
        """
        if self.bytes_left + self.bytes_held > self.pool.largest_window:
            return 0, 0
        return self.pool.smallest_window, self.pool.window_messages // 4

    def grant_at_once(self, size: int, count: int) -> None:
        """Adds credit immediately, regardless of what the session has outstanding: a batch cannot end without it."""
        self.bytes_left += size
        self.messages_left += count
        self.pool.used_bytes += size


@dataclass(slots=True)
class CreditPool:
    """Divides a budget of bytes among sessions.

    A quarter of the budget is reserved so that every session always has a small window. The rest is divided equally among the
    open sessions, at most half of the free part at a time. Granted credit cannot be revoked, so the share of a new session grows
    as the frames of others are released. Others may be idle, and release nothing: so a frame that waits for credit may exceed the
    budget, by the largest frame at most.
    """

    budget_bytes: int
    window_messages: int
    max_sessions: int
    frame_bytes: int
    """The size of the largest frame, in bytes."""
    accounts: dict[CreditAccount, None] = field(default_factory=dict)
    unbalanced: dict[CreditAccount, None] = field(default_factory=dict)
    used_bytes: int = 0
    """Unused granted credit plus the held frames, including frames of closed accounts, in bytes."""
    held_back: CreditAccount = field(init=False)
    """The account of what is held of paused streams. It is never granted anything."""
    _short: dict[CreditAccount, None] = field(default_factory=dict)
    _waiting: dict[CreditAccount, None] = field(default_factory=dict)
    """Accounts with a frame that waits for credit."""
    _noted_window: int = 0
    """The window, in bytes, for which the accounts in `_short` were listed."""

    def __post_init__(self) -> None:
        self.held_back = CreditAccount(self, lambda size, count: None)

    @property
    def smallest_window(self) -> int:
        """How much every session may have outstanding, in bytes, regardless of the number of sessions."""
        return max(self.budget_bytes // 4 // self.max_sessions, 4096)

    @property
    def largest_window(self) -> int:
        """How much a session may have outstanding without requesting more, in bytes, with the current number of sessions."""
        return self._window()

    @property
    def shared_bytes(self) -> int:
        """The part of the budget that is shared, in bytes."""
        return self.budget_bytes * 3 // 4

    def open(self, grant: Callable[[int, int], None]) -> CreditAccount:
        """Opens an account with its initial credit, which is not sent through `grant`."""
        account = CreditAccount(self, grant)
        self.accounts[account] = None
        self._note_window()
        self._add(account)
        return account

    def close(self, account: CreditAccount) -> None:
        """Closes an account. Its frames that are still held keep using the budget."""
        if account not in self.accounts:
            return
        del self.accounts[account]
        self.unbalanced.pop(account, None)
        self._short.pop(account, None)
        self._waiting.pop(account, None)
        self.used_bytes -= account.bytes_left
        account.bytes_left = account.messages_left = 0
        self._note_window()

    def released(self, account: CreditAccount, size: int) -> None:
        """Notes that `size` bytes of an account, open or closed, have become free."""
        self.used_bytes -= size
        if account in self.accounts:
            self.unbalanced[account] = None

    def rebalance(self) -> None:
        """Grants the credit of released frames: to their own sessions, then to sessions with a waiting frame, then to others.

        Visits the last two groups only while credit is free for them: of a thousand sessions, most lack credit.
        """
        unbalanced, self.unbalanced = self.unbalanced, {}
        for account in unbalanced:
            self._top_up(account)
        for account in list(self._waiting) if self._waiting and self._lendable() else ():
            self._top_up(account)
            if account in self._waiting and not self._free():
                break
        window = self._window()
        while self._short and self._free() // 2 * 4 >= window:
            self._top_up(next(iter(self._short)))

    def _top_up(self, account: CreditAccount) -> None:
        size, count = self._due(account)
        in_need = account.bytes_requested > 0 or (account.bytes_held == 0 and account.messages_held == 0)
        if (size or count) and (in_need or size * 4 >= self._window() or count * 4 >= self.window_messages):
            self._add(account)
            account.grant(size, count)
        else:
            self._note_short(account)

    def _add(self, account: CreditAccount) -> None:
        size, count = self._due(account)
        account.bytes_left += size
        account.messages_left += count
        self.used_bytes += size
        self._note_short(account)

    def _window(self) -> int:
        return max(self.shared_bytes // max(2, len(self.accounts)), self.smallest_window)

    def _free(self) -> int:
        return max(0, self.shared_bytes - self.used_bytes)

    def _lendable(self) -> int:
        """Returns how much of a waiting frame may be granted, in bytes. Part of a frame would help nobody."""
        in_windows = self.smallest_window * len(self.accounts)
        return max(0, self.shared_bytes + in_windows + self.frame_bytes - self.used_bytes)

    def _due(self, account: CreditAccount) -> tuple[int, int]:
        """Returns how many bytes and messages may be granted to the account now."""
        has = account.bytes_left + account.bytes_held
        room = max(self._window(), account.bytes_requested) - has
        free = self._free() if account.bytes_requested else self._free() // 2
        size = max(min(room, free), self.smallest_window - has, 0)
        if size < (lacking := account.bytes_requested - has) <= self._lendable():
            size = lacking
        return size, max(0, self.window_messages - account.messages_left - account.messages_held)

    def _note_short(self, account: CreditAccount) -> None:
        """Lists an account if a grant is worthwhile: it has a waiting frame, or lacks a quarter of a window."""
        self._short.pop(account, None)
        self._waiting.pop(account, None)
        has, window = account.bytes_left + account.bytes_held, self._window()
        if account.bytes_requested > account.bytes_left and has < max(window, account.bytes_requested):
            self._waiting[account] = None
        elif (window - has) * 4 >= window:
            self._short[account] = None

    def _note_window(self) -> None:
        """Lists all accounts as short once the window has grown by a quarter, because a grant may be worthwhile now."""
        window = self._window()
        if window * 4 >= self._noted_window * 5:
            self._short = dict.fromkeys(account for account in self.accounts if account not in self._waiting)
            self._noted_window = window
        self._noted_window = min(self._noted_window, window)
