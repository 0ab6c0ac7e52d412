"""What a log writer does for its supervisor: it reads the pipes that it is given, and tells what is wrong."""

import json
import os
import selectors
import socket
from pathlib import Path
from typing import Any

from headrace.log_writer.writer import Writer

LARGEST_MESSAGE_BYTES = 64 << 10
_LOOK_EVERY_S = 0.5


class Service:
    """Does what a supervisor asks for; once that has ended, it reads until all processes have.

    Each message is a JSON document: `{"add": NAME, "path": PATH}` with the descriptor of a pipe, `{"leave": NAME}`,
    `{"catch_up": NUMBER}`, which is answered once it is done, and `{"end": true}`. What is wrong is sent when it changes.
    """

    def __init__(self, control: socket.socket, writer: Writer) -> None:
        """Does nothing yet.

        Args:
            control: The connection to the supervisor, of packets.
            writer: What writes.
        """
        self._control = control
        self._writer = writer
        self._has_supervisor = True
        self._told: dict[str, Any] = {"faults": {}, "lost": {}}

    def run(self) -> None:
        """Works until the supervisor says that it ends, or it and all its processes have ended."""
        self._control.setblocking(False)
        # It is ready.
        self._send(self._told)
        with selectors.DefaultSelector() as selector:
            selector.register(self._writer, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            while self._has_supervisor or self._writer.has_pipes:
                ready = {key.fileobj for key, _ in selector.select(_LOOK_EVERY_S if self._writer.waits else None)}
                self._writer.step()
                if self._control in ready and not self._hear():
                    break
                if not self._has_supervisor and self._control in ready:
                    selector.unregister(self._control)
                self._tell()
        self._writer.close()

    def _hear(self) -> bool:
        """Takes messages. Returns False once the supervisor has said that this is the end."""
        while True:
            try:
                packet, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_MESSAGE_BYTES, 1)
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
                self._writer.add(message["add"], Path(message["path"]), descriptor)
        elif "leave" in message:
            self._writer.leave(message["leave"])
        elif "catch_up" in message:
            self._writer.catch_up()
            self._send({"caught_up": message["catch_up"]})

    def _tell(self) -> None:
        state = self._writer.state()
        if state != self._told and self._send(state):
            self._told = state

    def _send(self, message: dict[str, Any]) -> bool:
        try:
            self._control.send(json.dumps(message).encode())
        except OSError:
            # The supervisor does not listen at the moment, or has ended.
            return False
        return True
