"""Names of `tvm.target`."""

from __future__ import annotations

from typing import Any


class Target:
    """A compilation target in the form that passes see: a name with options. Modules always run on this machine."""

    def __init__(self, target: Any, host: Any = None) -> None:
        """Creates a target from a text such as `llvm -mcpu=native`, or a dictionary with `kind`."""
        self.config = dict(target) if isinstance(target, dict) else {"kind": str(target).split(maxsplit=1)[0]}
        self.text = str(target)
        self.host = host

    @property
    def kind(self) -> Any:
        """The kind, with its name."""
        return type("TargetKind", (), {"name": self.config["kind"]})()

    def __str__(self) -> str:
        """Returns the original text."""
        return self.text

    def __enter__(self) -> Target:
        """Returns the target, for `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing."""
