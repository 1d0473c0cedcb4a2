"""How often somebody may ask: a moving window of a minute for each key."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

_WINDOW_S = 60.0


class RateLimit:
    """Admits so many requests of a key in any minute.

    It remembers a bounded number of keys: the one that was quiet longest is forgotten first. For
    one thread alone.
    """

    def __init__(
        self, per_minute: int, *, clock: Callable[[], float], most_keys: int = 2_000
    ) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._most_keys = most_keys
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, key: str) -> float:
        """Count a request and return 0, or say how long to wait; what must wait is not counted."""
        now = self._clock()
        times = self._times.setdefault(key, deque())
        self._times.move_to_end(key)
        while times and times[0] <= now - _WINDOW_S:
            times.popleft()
        if len(times) >= self._per_minute:
            return times[0] + _WINDOW_S - now
        times.append(now)
        if len(self._times) > self._most_keys:
            self._times.popitem(last=False)
        return 0.0
