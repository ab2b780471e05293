"""Names of `tvm.support.utils`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that is removed at the end of a `with` statement, of the object, or of the program."""

    def __init__(self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool | None = None) -> None:
        """A new one, or one at a path. With `keep_for_debug` it stays."""
        if custom_path is not None:
            Path(custom_path).mkdir(parents=True)
        self._folder: Path | None = Path(tempfile.mkdtemp() if custom_path is None else custom_path)
        self._keeps = bool(keep_for_debug)

    @property
    def path(self) -> Path:
        """Where it is."""
        if self._folder is None:
            raise FileNotFoundError("the folder was removed")
        return self._folder

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    def __truediv__(self, name: str) -> Path:
        """The path of a file in it."""
        return self.path / name

    def listdir(self) -> list[str]:
        """Names of what is in it."""
        return os.listdir(self.path)

    def remove(self) -> None:
        """Removes it with what is in it."""
        if self._folder is not None and not self._keeps:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> TempDirectory:
        """For `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Removes it."""
        self.remove()

    def __del__(self) -> None:
        """Removes it."""
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """A temporary folder."""
    return TempDirectory(custom_path, keep_for_debug)
