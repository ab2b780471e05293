"""Names of `tvm.target`."""

from __future__ import annotations

from typing import Any


class Target:
    """A compilation target: a name with options, as passes see it. Modules run on this machine, whatever it says."""

    def __init__(self, target: Any, host: Any = None) -> None:
        """Of its text, as in `llvm -mcpu=native`, or of a dictionary with `kind`."""
        self.config = dict(target) if isinstance(target, dict) else {"kind": str(target).split(maxsplit=1)[0]}
        self.text = str(target)
        self.host = host

    @property
    def kind(self) -> Any:
        """Its kind, with its name."""
        return type("TargetKind", (), {"name": self.config["kind"]})()

    def __str__(self) -> str:
        """As it was written."""
        return self.text

    def __enter__(self) -> Target:
        """For `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """For `with`."""
