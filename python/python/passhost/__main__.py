"""The command line: `python -m passhost` runs the program `passhost` that the package includes."""

from __future__ import annotations

import os
import subprocess
import sys

from passhost._plugins import standard_manifest


def main() -> int:
    """Runs the program with the arguments of this process; returns its exit code.

    If neither this folder nor its parents have a `passes.toml`, the program uses the one in the package.
    """
    program = standard_manifest().parent / ("passhost.exe" if os.name == "nt" else "passhost")
    if os.name == "nt":
        return subprocess.run([program, *sys.argv[1:]], check=False).returncode
    sys.stdout.flush()
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
