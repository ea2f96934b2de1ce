"""A scheduler of simulated threads in one real thread, with a clock that stands still while code runs.

A simulated thread is a greenlet of a simulated process. It runs until it sleeps, waits, or performs an effect; then the
thread whose time comes next runs. The order follows from the times alone, so a run is the same each time. A process may
die: its threads end without any further effect. It may pause: none of its threads runs until the pause is over.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import greenlet

EPOCH = 1_790_000_000.0
"""Time at which each simulation begins, in seconds since 1970."""


class ProcessDied(BaseException):
    """Raised in the threads of a process that has died, whatever they do next."""


@dataclass(eq=False)
class Process:
    """A simulated process on a machine of its own; `clock_offset` is the error of the machine's wall clock."""

    name: str
    host: str
    pid: int
    started: float
    clock_offset: float = 0.0
    paused_until: float = 0.0
    is_dead: bool = False
    threads: list[Task] = field(default_factory=list)


class Task(greenlet.greenlet):
    """A simulated thread."""

    def __init__(self, kernel: Kernel, process: Process, action: Callable[[], None], name: str) -> None:
        super().__init__(self._run_action, kernel.hub)
        self.process = process
        self.name = name
        self.is_over = False
        self.turn = 0
        self.was_woken = False
        self.waiters: list[Task] = []
        self.local: dict[int, dict[str, Any]] = {}
        self.error: BaseException | None = None
        self._kernel = kernel
        self._action = action

    def _run_action(self) -> None:
        try:
            self._action()
        except (ProcessDied, greenlet.GreenletExit):
            pass
        except Exception as error:  # As in Python, an error ends its thread and nothing else.
            self.error = error
            self._kernel.note_error(self, error)
        finally:
            self.is_over = True
            for waiter in self.waiters:
                self._kernel.wake(waiter)


class Kernel:
    """Runs simulated threads in the order of their times; `now` is the true time in seconds since 1970."""

    def __init__(self) -> None:
        self.now = EPOCH
        self.hub = greenlet.getcurrent()
        self.steps = 0
        self.errors: list[tuple[float, str, BaseException]] = []
        self._queue: list[tuple[float, int, Task, int]] = []
        self._numbers = 0
        self._dying: list[Process] = []

    # Threads

    def start(self, process: Process, action: Callable[[], None], name: str) -> Task:
        task = Task(self, process, action, name)
        process.threads.append(task)
        self._enqueue(task, self.now)
        return task

    @property
    def current(self) -> Task:
        task = greenlet.getcurrent()
        assert isinstance(task, Task), "no simulated thread is running"
        return task

    def sleep(self, seconds: float) -> None:
        """Lets other threads run for so long, and at least those whose time has come."""
        task = self._enter()
        self._enqueue(task, self.now + max(0.0, seconds))
        self.hub.switch()
        self._leave(task)

    def block(self, seconds: float | None = None) -> bool:
        """Waits for `wake`; returns False if that did not happen within so many seconds."""
        task = self._enter()
        task.was_woken = False
        if seconds is not None:
            self._enqueue(task, self.now + max(0.0, seconds))
        self.hub.switch()
        self._leave(task)
        return task.was_woken

    def wake(self, task: Task) -> None:
        if not task.is_over and not task.was_woken:
            task.was_woken = True
            self._enqueue(task, self.now)

    def kill(self, process: Process) -> None:
        """Ends a process: its threads perform nothing any more. Raises ProcessDied if the caller is one of them."""
        if not process.is_dead:
            process.is_dead = True
            self._dying.append(process)
        task = greenlet.getcurrent()
        if isinstance(task, Task) and task.process is process:
            raise ProcessDied

    def note_error(self, task: Task, error: BaseException) -> None:
        self.errors.append((self.now, f"{task.process.name}/{task.name}", error))

    def run_until(self, end: float) -> None:
        """Runs threads until the time `end`, or until none is left to run."""
        while self._queue and self._queue[0][0] <= end:
            at, _, task, turn = heapq.heappop(self._queue)
            if task.is_over or task.turn != turn or task.process.is_dead:
                continue
            if task.process.paused_until > at:
                self._enqueue(task, task.process.paused_until)
                continue
            self.now = max(self.now, at)
            self.steps += 1
            task.turn += 1
            task.switch()
            while self._dying:
                self.bury(self._dying.pop())
        self.now = max(self.now, end)

    def close(self) -> None:
        """Ends all threads that are left, of all processes."""
        left = {id(task.process): task.process for _, _, task, _ in self._queue}
        for process in left.values():
            process.is_dead = True
            self.bury(process)
        self._queue.clear()

    def drop_others(self, name: str) -> None:
        """Forgets the threads of this name that have not run yet."""
        self._queue = [entry for entry in self._queue if entry[2].name != name]
        heapq.heapify(self._queue)

    def bury(self, process: Process) -> None:
        for task in process.threads:
            while not task.is_over and task:
                task.throw(ProcessDied)
            task.is_over = True
        process.threads.clear()

    def _enqueue(self, task: Task, at: float) -> None:
        self._numbers += 1
        heapq.heappush(self._queue, (at, self._numbers, task, task.turn))

    def _enter(self) -> Task:
        task = self.current
        if task.process.is_dead:
            raise ProcessDied
        return task

    def _leave(self, task: Task) -> None:
        if task.process.is_dead:
            raise ProcessDied
