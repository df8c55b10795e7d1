"""Transitions: what takes time in EC2 and none in moto.

A state that EC2 reaches later (pending -> running, creating -> available, ...)
is held until the hypervisor reports it, or, where nothing boots, until a delay
has passed. Every request is handled under LOCK, so rules need no locks of
their own.
"""

import heapq
import itertools
import threading
import time

LOCK = threading.RLock()


class Transitions:
    """Due changes of state. Without a hypervisor they come from a clock."""

    def __init__(self):
        self.hypervisor = False
        self.delay = 0.0  # seconds
        self.held = False  # nothing that is due is done
        self._queue = []
        self._order = itertools.count()

    def later(self, action):
        """Has action done when the delay has passed; never with a hypervisor."""
        if not self.hypervisor:
            due = time.monotonic() + self.delay
            heapq.heappush(self._queue, (due, next(self._order), action))

    def settle(self):
        """Does what is due. Called before each request."""
        now = time.monotonic()
        while not self.held and self._queue and self._queue[0][0] <= now:
            heapq.heappop(self._queue)[2]()


TRANSITIONS = Transitions()
