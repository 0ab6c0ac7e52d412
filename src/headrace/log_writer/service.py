"""What a log writer does for its supervisor: it reads the pipes that it is given, and tells what is wrong."""

import json
import os
import selectors
import socket
from pathlib import Path
from typing import Any

from headrace.log_writer.writer import Writer

MAX_MESSAGE_BYTES = 64 << 10
_LOOK_EVERY_S = 0.5


def send(control: socket.socket, message: dict[str, Any]) -> bool:
    """Sends a message between a supervisor and its log writer.

    Returns:
        Whether it is sent: the other end may not listen at the moment, or have ended.
    """
    try:
        control.send(json.dumps(message).encode())
    except OSError:
        return False
    return True


class Service:
    """Does what a supervisor asks for; once that has ended, it reads until all processes have.

    Each message is a JSON document: `{"add": NAME, "path": PATH, "shows": BOOLEAN}` with the descriptor of a pipe,
    `{"leave": NAME}`, `{"ask": NUMBER, "catches_up": BOOLEAN}`, and `{"end": true}`. A question is answered; if it catches up,
    once all is written, or a disk or a reader hangs.
    A fault is sent when it changes.
    """

    def __init__(self, control: socket.socket, writer: Writer) -> None:
        """Does nothing yet.

        Args:
            control: The connection to the supervisor, of packets.
            writer: What writes.
        """
        self._control = control
        self._writer = writer
        self._selector = selectors.DefaultSelector()
        self._has_supervisor = True
        self._last_state: dict[str, Any] = {"faults": {}, "lost": {}}
        self._answer: int | None = None
        """The answer that was not sent, since the supervisor does not listen at the moment."""

    def run(self) -> None:
        """Works until the supervisor says that it ends, or it and all its processes have ended."""
        self.begin()
        while self.step(_LOOK_EVERY_S if self._waits else None):
            pass
        self.close()

    def begin(self) -> None:
        """Tells the supervisor that it is ready."""
        self._control.setblocking(False)
        send(self._control, self._last_state)
        self._selector.register(self._writer, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ)

    def step(self, wait_s: float | None) -> bool:
        """Waits until there is something to do, and does it.

        Args:
            wait_s: For how long to wait, in seconds; None for as long as it takes.

        Returns:
            Whether there will be more.
        """
        ready = {key.fileobj for key, _ in self._selector.select(wait_s)}
        self._writer.step()
        if self._control in ready and not self._hear():
            return False
        if not self._has_supervisor and self._control in ready:
            self._selector.unregister(self._control)
        self._tell()
        return self._has_supervisor or self._writer.has_pipes

    def close(self) -> None:
        """Writes what is left, however long that takes: a supervisor ends what takes too long."""
        self._writer.close()
        self._selector.close()

    @property
    def _waits(self) -> bool:
        return self._writer.waits or (self._answer is not None and self._has_supervisor)

    def _hear(self) -> bool:
        """Takes messages. Returns False once the supervisor has said that this is the end."""
        while True:
            try:
                packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, 1)
            except BlockingIOError:
                return True
            except OSError:
                packet, descriptors = b"", []
            if not packet:
                self._has_supervisor = False
                return True
            message = json.loads(packet)
            if "end" in message:
                return False
            self._do(message, descriptors)

    def _do(self, message: dict[str, Any], descriptors: list[int]) -> None:
        if "add" in message:
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
                self._writer.add(message["add"], Path(message["path"]), descriptor, shows=message["shows"])
        elif "leave" in message:
            self._writer.leave(message["leave"])
        elif "ask" in message:
            if message["catches_up"]:
                self._writer.catch_up()
            self._answer = message["ask"]

    def _tell(self) -> None:
        if self._answer is not None and send(self._control, {"answered": self._answer}):
            self._answer = None
        state = self._writer.state()
        if state != self._last_state and send(self._control, state):
            self._last_state = state
