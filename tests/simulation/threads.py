"""The parts of `threading`, `time`, `queue`, `concurrent.futures` and `datetime` that the runtime uses, simulated.

They have the same names and behave as Python's, but wait in the scheduler of the running simulation. Threads of one
process share them; a thread of a dead process that waits, or starts something, ends at once.
"""

from __future__ import annotations

import datetime as real_datetime
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty
from types import SimpleNamespace
from typing import Any

import greenlet

from tests.simulation.kernel import Kernel, Process, ProcessDied, Task


class Current:
    """The running simulation, of which there is one at a time."""

    kernel: Kernel
    tokens: Callable[[], str]
    alive: Callable[[str, int], bool]
    mended: set[str]
    """What was wrong with events, and is mended by now."""


def get_process() -> Process | None:
    task = greenlet.getcurrent()
    return task.process if isinstance(task, Task) else None


def read_wall_clock() -> float:
    process = get_process()
    return Current.kernel.now + (process.clock_offset if process else 0.0)


def read_monotonic() -> float:
    """Seconds since the machine of the process was started, which was a while ago."""
    process = get_process()
    return Current.kernel.now - (process.started if process else 0.0) + 1000.0


class Waiters:
    """Threads that wait for something, oldest first."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()

    def wait(self, timeout: float | None) -> bool:
        kernel = Current.kernel
        task = kernel.current
        self._waiting.append(task)
        try:
            return kernel.block(timeout)
        finally:
            if task in self._waiting:
                self._waiting.remove(task)

    def wake(self, count: int | None = None) -> None:
        while self._waiting and (count is None or count > 0):
            Current.kernel.wake(self._waiting.popleft())
            count = None if count is None else count - 1


class Lock:
    def __init__(self) -> None:
        self._owner: Any = None
        self._depth = 0
        self._waiters = Waiters()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = greenlet.getcurrent()
        while self._owner is not None and not self._may_enter(me):
            if not blocking:
                return False
            self._waiters.wait(None if timeout < 0 else timeout)
        self._owner = me
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if self._depth <= 0:
            self._owner, self._depth = None, 0
            self._waiters.wake(1)

    def _may_enter(self, me: Any) -> bool:
        return False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    def _may_enter(self, me: Any) -> bool:
        return self._owner is me


class BoundedSemaphore:
    def __init__(self, value: int = 1) -> None:
        self._most = self._free = value
        self._waiters = Waiters()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        while self._free == 0:
            if not blocking or not self._waiters.wait(timeout):
                return False
        self._free -= 1
        return True

    def release(self) -> None:
        if self._free == self._most:
            raise ValueError("released more often than acquired")
        self._free += 1
        self._waiters.wake(1)


class Event:
    def __init__(self) -> None:
        self._is_set = False
        self._waiters = Waiters()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        process = get_process()
        if process is not None and process.is_dead:
            raise ProcessDied
        if not self._is_set:
            self._waiters.wait(timeout)
        return self._is_set


class Condition:
    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock or RLock()
        self._waiters = Waiters()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        depth, self._lock._depth = self._lock._depth, 1
        self._lock.release()
        try:
            return self._waiters.wait(timeout)
        finally:
            self._lock.acquire()
            self._lock._depth = depth

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = None if timeout is None else Current.kernel.now + timeout
        while not (result := predicate()):
            left = None if end is None else end - Current.kernel.now
            if left is not None and left <= 0:
                return result
            self.wait(left)
        return result

    def notify(self, count: int = 1) -> None:
        self._waiters.wake(count)

    def notify_all(self) -> None:
        self._waiters.wake()


class Thread:
    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._action = (target, args, kwargs or {})
        self.name = name or "thread"
        self.daemon = daemon
        self._task: Task | None = None

    def start(self) -> None:
        target, args, kwargs = self._action
        assert target is not None
        process = get_process()
        assert process is not None
        if process.is_dead:
            raise ProcessDied
        self._task = Current.kernel.start(process, lambda: target(*args, **kwargs), self.name)

    def join(self, timeout: float | None = None) -> None:
        assert self._task is not None
        if not self._task.is_over:
            self._task.waiters.append(Current.kernel.current)
            Current.kernel.block(timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_over


class Local:
    """Values of which each thread has its own."""

    def __getattribute__(self, name: str) -> Any:
        own = _get_own(self)
        if name in own:
            return own[name]
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _get_own(self)[name] = value


def _get_own(local: Local) -> dict[str, Any]:
    task = greenlet.getcurrent()
    return task.local.setdefault(id(local), {}) if isinstance(task, Task) else {}


def current_thread() -> SimpleNamespace:
    task = greenlet.getcurrent()
    return SimpleNamespace(name=task.name if isinstance(task, Task) else "main")


class Future:
    """The result of a submitted action."""

    def __init__(self) -> None:
        self._done = Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._done.is_set()

    def result(self, timeout: float | None = None) -> Any:
        self._done.wait(timeout)
        if self._error is not None:
            raise self._error
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._done.wait(timeout)
        return self._error

    def run(self, action: Callable[[], Any]) -> None:
        try:
            self._result = action()
        except Exception as error:
            self._error = error
        self._done.set()


class ThreadPoolExecutor:
    """Runs submitted actions in at most `max_workers` simulated threads."""

    def __init__(
        self,
        max_workers: int = 1,
        thread_name_prefix: str = "",
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        self._most = max_workers
        self._prefix = thread_name_prefix
        self._initialize = initializer
        self._waiting: deque[tuple[Future, Callable[[], Any]]] = deque()
        self._running = 0
        self._started = 0
        self._idle = Waiters()

    def submit(self, action: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        future = Future()
        self._waiting.append((future, lambda: action(*args, **kwargs)))
        if self._running < self._most:
            self._running += 1
            self._started += 1
            Thread(target=self._work, name=f"{self._prefix}_{self._started}").start()
        return future

    def map(self, action: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        futures = [self.submit(action, *parts) for parts in zip(*items, strict=False)]
        return (future.result() for future in futures)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        process = get_process()
        if process is not None and process.is_dead:
            raise ProcessDied
        while wait and self._running:
            self._idle.wait(None)

    def _work(self) -> None:
        try:
            if self._initialize is not None:
                self._initialize()
            while self._waiting:
                future, action = self._waiting.popleft()
                future.run(action)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.wake()

    def __enter__(self) -> ThreadPoolExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def wait(futures: Iterable[Future], timeout: float | None = None) -> None:
    for future in futures:
        future.exception(timeout)


class SimpleQueue:
    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiters = Waiters()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._waiters.wake(1)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        end = None if timeout is None else Current.kernel.now + timeout
        while not self._items:
            left = None if end is None else end - Current.kernel.now
            if not block or (left is not None and left <= 0):
                raise Empty
            self._waiters.wait(left)
        return self._items.popleft()


class _DatetimeType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, real_datetime.datetime)


class Datetime(real_datetime.datetime, metaclass=_DatetimeType):
    """`datetime.datetime` whose present is that of the simulation; its values are those of Python's class."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return real_datetime.datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return real_datetime.datetime.fromtimestamp(read_wall_clock(), tz)

    @classmethod
    def fromtimestamp(cls, seconds: float, tz: Any = None) -> Any:
        return real_datetime.datetime.fromtimestamp(seconds, tz)


Datetime.min = real_datetime.datetime.min  # type: ignore[misc]
Datetime.max = real_datetime.datetime.max  # type: ignore[misc]


def _sleep(seconds: float) -> None:
    Current.kernel.sleep(seconds)


THREADING = SimpleNamespace(
    Thread=Thread,
    Event=Event,
    Lock=Lock,
    RLock=RLock,
    BoundedSemaphore=BoundedSemaphore,
    Condition=Condition,
    local=Local,
    current_thread=current_thread,
    get_ident=lambda: id(greenlet.getcurrent()),
)
TIME = SimpleNamespace(
    time=read_wall_clock,
    monotonic=read_monotonic,
    perf_counter=read_monotonic,
    sleep=_sleep,
)


class Token:
    """A random UUID, whose digits follow from the order of calls."""

    def __init__(self) -> None:
        self.hex = Current.tokens()

    def __str__(self) -> str:
        return self.hex


UUID = SimpleNamespace(uuid4=Token)
DATETIME = SimpleNamespace(
    datetime=Datetime,
    date=real_datetime.date,
    time=real_datetime.time,
    timedelta=real_datetime.timedelta,
    timezone=real_datetime.timezone,
    tzinfo=real_datetime.tzinfo,
)
