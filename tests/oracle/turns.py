"""Measures programs in turns, each in a separate process.

A process is stopped during the turns of other processes, because threads of OpenBLAS spin for a tenth of a second after
a call, and would occupy a core. In its turn, a program calls its function for 20 ms, and at least twice, because other
programs filled the caches before the first call.
"""

import os
import signal
import statistics
import subprocess
import sys
import time

import numpy as np

THREADS = "2"


def serve(function):
    """Calls a function for one turn per input line, and writes the median time in seconds.

    The first result is written to a file.
    """
    path = sys.stdin.readline().strip()
    np.save(path, function())
    print("ready", flush=True)
    for _ in sys.stdin:
        print(statistics.median(turn(function)), flush=True)


def turn(function):
    """Returns the seconds of each call in a turn, except the first call."""
    seconds, end = [], time.perf_counter() + 0.02
    function()
    while not seconds or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


class Program:
    """A program in a separate process: a command that ends in `serve`."""

    def __init__(self, arguments, path):
        """Starts the program and runs it once; its result is written to `path`."""
        names = ("TVM_NUM_THREADS", "RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        environment = os.environ | dict.fromkeys(names, THREADS)
        command = [sys.executable, *arguments]
        self.process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment)
        self.path, self.seconds = path, []
        self.said(str(path))

    def said(self, line):
        """Sends a line and returns the answer."""
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"a program ended: {self.process.args}")
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def end(self):
        """Ends the program, and returns its result."""
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()
        return np.load(self.path)


def measure(programs, rounds, folder):
    """Returns the seconds of each program in each round; `programs` contains the arguments by name.

    Each result must be close to the result of `reference`, the last program.
    """
    started = {name: Program(arguments, folder / f"{at}.npy") for at, (name, arguments) in enumerate(programs.items())}
    for _ in range(rounds):
        for program in started.values():
            program.seconds.append(float(program.said("run")))
    results = {name: program.end() for name, program in started.items()}
    *_, reference = results.values()
    for name, result in results.items():
        apart = np.abs(result - reference).max() / np.abs(reference).max()
        if not apart < 1e-4:
            raise SystemExit(f"{name} computes a different result: {apart}")
    return {name: program.seconds for name, program in started.items()}
