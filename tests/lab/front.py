"""The front end of a replica: receives requests, batches them, and streams tokens back."""

import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.lab.cluster import FRONT
from tests.lab.load import BYTES_PER_TOKEN, DONE, REQUEST
from tests.lab.vllm_page import Numbers

ADMITTED = 16
"""Sequences in a batch, at most."""
MAX_PREFILL = 4096
"""Tokens of new prompts in a step, from which no more are taken."""
IDLE = 0.005
"""Seconds to wait where there is nothing to do."""
TOKEN = b"data: " + b"x" * 90 + b"\n\n"


@dataclass
class Request:
    """A client that waits for its answer."""

    client: socket.socket
    prompt: int
    answer: int
    came: float
    made: int = 0
    """Tokens so far."""
    last: float = 0.0
    """When the newest of them was made."""


@dataclass
class FrontEnd:
    """All requests of a replica."""

    address: str
    numbers: Numbers
    _waiting: "queue.Queue[Request]" = field(default_factory=queue.Queue)
    _active: list[Request] = field(default_factory=list)
    _answers: "queue.Queue[tuple[Request, bytes]]" = field(default_factory=queue.Queue)

    def start(self) -> None:
        """Starts to accept requests."""
        for target in (self._accept, self._answer):
            threading.Thread(target=target, daemon=True).start()

    def _accept(self) -> None:
        with socket.create_server((self.address, FRONT), backlog=512) as door:
            while True:
                client, _ = door.accept()
                threading.Thread(target=self._take, args=(client,), daemon=True).start()

    def _take(self, client: socket.socket) -> None:
        """Reads a request to its end."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            _, prompt, answer = REQUEST.unpack(client.recv(REQUEST.size, socket.MSG_WAITALL))
            left = prompt * BYTES_PER_TOKEN
            while left:
                got = len(client.recv(min(left, 65536)))
                if not got:
                    return
                left -= got
        except OSError:
            return
        self._waiting.put(Request(client, prompt, answer, time.time()))

    def _answer(self) -> None:
        """Sends the tokens in a separate task, so that no client delays a step."""
        while True:
            request, text = self._answers.get()
            try:
                request.client.sendall(text)
                if text is DONE:
                    request.client.close()
            except OSError:
                continue

    def serve(self, step: Callable[[int, int], None]) -> None:
        """Runs steps without end, whenever there is work."""
        while True:
            prefill = self._admitted()
            if not self._active:
                time.sleep(IDLE)
                continue
            step(len(self._active), prefill)
            self.numbers.step(len(self._active), prefill)
            self._active = [one for one in self._active if self._goes_on(one)]
            if not self._active:
                self.numbers.running = 0

    def _admitted(self) -> int:
        """Admits waiting requests up to the limit; returns the tokens of their prompts."""
        prefill = 0
        while len(self._active) < ADMITTED and prefill <= MAX_PREFILL and not self._waiting.empty():
            request = self._waiting.get()
            self._active.append(request)
            prefill += request.prompt
        self.numbers.waiting = self._waiting.qsize()
        return prefill

    def _goes_on(self, one: Request) -> bool:
        now = time.time()
        if one.made:
            self.numbers.between_tokens.add(now - one.last)
        else:
            self.numbers.first_token.add(now - one.came)
        one.made, one.last = one.made + 1, now
        self._answers.put((one, TOKEN))
        if one.made < one.answer:
            return True
        self._answers.put((one, b"data: " + DONE + b"\n\n"))
        self.numbers.finished += 1
        return False
