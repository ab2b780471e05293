"""`python -m passhost.tvm pytest …` runs TVM's tests with passhost in place of TVM; `… SCRIPT …` runs a program."""

from __future__ import annotations

import runpy
import sys

from passhost.tvm import install


class Count:
    """A pytest plugin that counts passing tests."""

    def __init__(self) -> None:
        """Starts with no tests."""
        self.passed = 0
        self.all = 0

    def pytest_collection_modifyitems(self, items: list[object]) -> None:
        """Counts all tests that were found."""
        self.all = len(items)

    def pytest_runtest_logreport(self, report: object) -> None:
        """Counts a test that passed."""
        if getattr(report, "when", "") == "call" and getattr(report, "outcome", "") == "passed":
            self.passed += 1


def main(arguments: list[str]) -> int:
    """Runs the command in the arguments; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m passhost.tvm pytest [ARGUMENTS OF PYTEST]")
        print("       python -m passhost.tvm SCRIPT [ARGUMENTS]")
        return 0 if arguments else 2
    install()
    if arguments[0] != "pytest":
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
        return 0
    import pytest

    count = Count()
    code = int(pytest.main(["--continue-on-collection-errors", *arguments[1:]], plugins=[count]))
    print(f"total: {count.passed} of {count.all}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
