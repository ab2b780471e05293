"""Names of `tvm.support.utils`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that is removed after a `with` statement, when the object is deleted, or when the program ends."""

    def __init__(self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool | None = None) -> None:
        """Creates a new folder, or the folder at a given path. With `keep_for_debug`, it is not removed."""
        if custom_path is not None:
            Path(custom_path).mkdir(parents=True)
        self._folder: Path | None = Path(tempfile.mkdtemp() if custom_path is None else custom_path)
        self._keeps = bool(keep_for_debug)

    @property
    def path(self) -> Path:
        """The path of the folder."""
        if self._folder is None:
            raise FileNotFoundError("the folder was removed")
        return self._folder

    def relpath(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return str(self.path / name)

    def __truediv__(self, name: str) -> Path:
        """Returns the path of a file in the folder."""
        return self.path / name

    def listdir(self) -> list[str]:
        """Lists the files in the folder."""
        return os.listdir(self.path)

    def remove(self) -> None:
        """Removes the folder and its contents."""
        if self._folder is not None and not self._keeps:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> TempDirectory:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the folder."""
        self.remove()

    def __del__(self) -> None:
        """Removes the folder."""
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """Creates a temporary folder."""
    return TempDirectory(custom_path, keep_for_debug)
