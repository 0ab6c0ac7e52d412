"""Credit: how many bytes and messages each session may have outstanding, out of one budget for all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.gateway.core._errors import LimitExceeded


@dataclass(slots=True, eq=False)
class CreditAccount:
    """What one session may still send, what it has outstanding, and what it is owed."""

    pool: "CreditPool"
    grant: Callable[[int, int], None]
    """Sends bytes and messages of credit to the session."""
    bytes_left: int = 0
    messages_left: int = 0
    bytes_held: int = 0
    messages_held: int = 0
    bytes_wanted: int = 0
    """The size of the largest frame that waits to be sent and has no room."""
    _wanted: dict[int, int] = field(default_factory=dict)
    """The size of each such frame, by the id of its stream."""

    def charge(self, size: int, count: int) -> None:
        """Takes a frame's credit.

        Raises:
            LimitExceeded: the session does not have it.
        """
        if size > self.bytes_left or count > self.messages_left:
            raise LimitExceeded(
                f"credit overrun: a frame of {size} bytes and {count} messages with credit left for {self.bytes_left} bytes "
                f"and {self.messages_left} messages; wait for Credit before sending"
            )
        self.bytes_left -= size
        self.messages_left -= count
        self.bytes_held += size
        self.messages_held += count

    def release(self, size: int, count: int) -> None:
        """Notes that a frame is held no longer; the pool's next `settle` gives the credit back."""
        self.bytes_held -= size
        self.messages_held -= count
        self.pool.released(self, size)

    def want(self, stream_id: int, size: int) -> None:
        """Asks for room for one frame of a stream that the credit that is left is too small for."""
        self._wanted[stream_id] = size
        self.bytes_wanted = max(self._wanted.values())
        self.pool.unsettled[self] = None

    def want_no_more(self, stream_id: int) -> None:
        """Notes that the frame has come, or never will."""
        if self._wanted.pop(stream_id, 0) == self.bytes_wanted:
            self.bytes_wanted = max(self._wanted.values(), default=0)

    def usual_loan(self) -> tuple[int, int]:
        """What to lend a stream that does not say how much it has ready: bytes and messages.

        What its frame leaves over other streams may spend, so that it is nothing once the session has more than its window.
        """
        if self.bytes_left + self.bytes_held > self.pool.largest_window:
            return 0, 0
        return self.pool.smallest_window, self.pool.window_messages // 4

    def lend(self, size: int, count: int) -> None:
        """Adds credit at once, whatever the session holds: a batch cannot end without it."""
        self.bytes_left += size
        self.messages_left += count
        self.pool.used_bytes += size


@dataclass(slots=True)
class CreditPool:
    """Shares a budget of bytes among sessions.

    A quarter of the budget is set aside so that every session always has a small window. The rest goes in equal shares to
    those that are open, at most half of what is free at a time: credit that was granted cannot be taken back, so a
    newcomer's share grows as the others' frames are released.
    """

    budget_bytes: int
    window_messages: int
    max_sessions: int
    accounts: dict[CreditAccount, None] = field(default_factory=dict)
    unsettled: dict[CreditAccount, None] = field(default_factory=dict)
    used_bytes: int = 0
    """Credit that is granted and not used, and frames that are held, also those of closed accounts."""
    _short: dict[CreditAccount, None] = field(default_factory=dict)
    _waiting: dict[CreditAccount, None] = field(default_factory=dict)
    """Those with a frame that waits and has no room."""
    _noted_window: int = 0
    """The window by which the accounts that are short were listed, in bytes."""

    @property
    def smallest_window(self) -> int:
        """What every session may have outstanding, in bytes, however many there are."""
        return max(self.budget_bytes // 4 // self.max_sessions, 4096)

    @property
    def largest_window(self) -> int:
        """What a session may have outstanding without having asked for more, in bytes, with as many sessions as there are."""
        return self._window()

    @property
    def shared_bytes(self) -> int:
        """The part of the budget that is shared, in bytes."""
        return self.budget_bytes * 3 // 4

    def open(self, grant: Callable[[int, int], None]) -> CreditAccount:
        """Opens an account with its first credit, which is not sent through `grant`."""
        account = CreditAccount(self, grant)
        self.accounts[account] = None
        self._note_window()
        self._add(account)
        return account

    def close(self, account: CreditAccount) -> None:
        """Closes an account; frames of it that are still held go on using the budget."""
        if account not in self.accounts:
            return
        del self.accounts[account]
        self.unsettled.pop(account, None)
        self._short.pop(account, None)
        self._waiting.pop(account, None)
        self.used_bytes -= account.bytes_left
        account.bytes_left = account.messages_left = 0
        self._note_window()

    def released(self, account: CreditAccount, size: int) -> None:
        """Notes that `size` bytes of an account, open or closed, are free."""
        self.used_bytes -= size
        if account in self.accounts:
            self.unsettled[account] = None

    def settle(self) -> None:
        """Grants what released frames make room for: to those whose they were, to those with a frame that waits, to others.

        The last two are looked at only while there is something for them: with a thousand sessions most of them are short.
        """
        unsettled, self.unsettled = self.unsettled, {}
        for account in unsettled:
            self._settle(account)
        for account in list(self._waiting) if self._waiting and self._free() else ():
            if not self._free():
                break
            self._settle(account)
        window = self._window()
        while self._short and self._free() // 2 * 4 >= window:
            self._settle(next(iter(self._short)))

    def _settle(self, account: CreditAccount) -> None:
        size, count = self._due(account)
        in_need = account.bytes_wanted > 0 or (account.bytes_held == 0 and account.messages_held == 0)
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

    def _due(self, account: CreditAccount) -> tuple[int, int]:
        """How many bytes and messages the account may be granted now."""
        has = account.bytes_left + account.bytes_held
        room = max(self._window(), account.bytes_wanted) - has
        free = self._free() if account.bytes_wanted else self._free() // 2
        size = max(min(room, free), self.smallest_window - has, 0)
        return size, max(0, self.window_messages - account.messages_left - account.messages_held)

    def _note_short(self, account: CreditAccount) -> None:
        """Lists an account last among those that lack what is worth a grant: a quarter of a window, or a frame's size."""
        self._short.pop(account, None)
        self._waiting.pop(account, None)
        has, window = account.bytes_left + account.bytes_held, self._window()
        if account.bytes_wanted > account.bytes_left and has < max(window, account.bytes_wanted):
            self._waiting[account] = None
        elif (window - has) * 4 >= window:
            self._short[account] = None

    def _note_window(self) -> None:
        """Lists all accounts as short once the window has grown by a quarter: what they lack may be worth a grant now."""
        window = self._window()
        if window * 4 >= self._noted_window * 5:
            self._short = dict.fromkeys(account for account in self.accounts if account not in self._waiting)
            self._noted_window = window
        self._noted_window = min(self._noted_window, window)
