"""The command line: `python -m passhost` is the program `passhost`, which the package carries."""

from __future__ import annotations

import os
import subprocess
import sys

from passhost._plugins import standard_manifest


def main() -> int:
    """Runs the program with the arguments of this process; gives its exit code.

    Without a `passes.toml` in this folder or above it, it finds that of the package beside itself.
    """
    program = standard_manifest().parent / ("passhost.exe" if os.name == "nt" else "passhost")
    if os.name == "nt":
        return subprocess.run([program, *sys.argv[1:]], check=False).returncode
    sys.stdout.flush()
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
