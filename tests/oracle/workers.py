"""Runs a function over many cases in separate processes, because TVM may crash or hang."""

import collections
import multiprocessing
import multiprocessing.connection
import os
import time

CRASHED = "crashed"
TIMED_OUT = "timed out"


def serve(function, connection):
    # TVM's log output would hide the progress.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while (case := connection.recv()) is not None:
        connection.send(function(case))


class Worker:
    """One process, and its current case."""

    def __init__(self, context, function):
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(function, theirs), daemon=True)
        self.process.start()
        # Close this process's copy of the worker's end, so that a crash closes the connection.
        theirs.close()
        self.at = self.since = None

    def give(self, at, case):
        self.at, self.since = at, time.monotonic()
        self.connection.send(case)

    def take(self, seconds):
        """Returns `(done, result)`; if the process crashed or timed out, the result is a constant."""
        try:
            if self.connection.poll():
                return True, self.connection.recv()
        except (EOFError, ConnectionError):
            return True, CRASHED
        if time.monotonic() - self.since > seconds:
            self.process.kill()
            return True, TIMED_OUT
        return False, None


def run(function, cases, jobs, seconds=300):
    """Yields `(index, result)` as the cases end; the result is CRASHED or TIMED_OUT if the process crashed or hung."""
    context = multiprocessing.get_context("spawn")
    pending, workers = collections.deque(enumerate(cases)), []
    while pending or workers:
        while pending and len(workers) < jobs:
            workers.append(Worker(context, function))
            workers[-1].give(*pending.popleft())
        multiprocessing.connection.wait([worker.connection for worker in workers], timeout=1)
        for worker in list(workers):
            done, result = worker.take(seconds)
            if not done:
                continue
            yield worker.at, result
            if isinstance(result, str) and result in (CRASHED, TIMED_OUT):
                workers.remove(worker)
            elif pending:
                worker.give(*pending.popleft())
            else:
                worker.connection.send(None)
                workers.remove(worker)
