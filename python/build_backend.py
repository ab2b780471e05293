"""Builds the package: the bundled plugins and command line and, through maturin, the extension module.

pip calls this module. For work on the package itself, `python build_backend.py` builds everything quickly into the
source folder; put `python/python` on `PYTHONPATH` afterwards. `--release` makes an optimized build for measurements.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

try:
    import maturin
except ModuleNotFoundError:  # Not needed for work on the package.
    maturin = None

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PACKAGE = HERE / "python" / "passhost"
MANIFEST = (ROOT / "passes.toml").read_text(encoding="utf-8")
# The crates of the plugins in the default manifest, each in a folder of the same name.
PLUGINS = [f"passhost-{Path(plugin['crate']).name}" for plugin in tomllib.loads(MANIFEST)["plugin"]]


def _cargo(*packages: str, release: bool) -> list[Path]:
    """Builds crates; returns the files that cargo produced."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--message-format", "json-render-diagnostics"]
    command += ["--release"] if release else []
    for package in packages:
        command += ["-p", package]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    made = (json.loads(line) for line in lines)
    files = [
        Path(file) for message in made if message["reason"] == "compiler-artifact" for file in message["filenames"]
    ]
    programs = (message["executable"] for message in map(json.loads, lines) if message.get("executable"))
    return [*files, *map(Path, programs)]


def _carry(files: list[Path]) -> None:
    """Copies the plugins, a manifest that lists them, and the command line into the package."""
    folder = PACKAGE / "_plugins"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    text = MANIFEST
    for package in PLUGINS:
        crate = package.removeprefix("passhost-")
        [library] = {file for file in files if _is_library(file, crate)}
        shutil.copy2(library, folder / library.name)
        text = text.replace(f'crate = "plugins/{crate}"', f'path = "{library.name}"')
    (folder / "passes.toml").write_text(text, encoding="utf-8")
    [program] = {file for file in files if file.stem == "passhost" and file.suffix in ("", ".exe")}
    program = Path(shutil.copy2(program, folder / program.name))
    subprocess.run([program, "lock", "--manifest", folder / "passes.toml"], check=True)


def _is_library(file: Path, crate: str) -> bool:
    name = file.stem.replace("_", "-").removeprefix("lib")
    return file.suffix in (".so", ".dylib", ".dll") and name == crate


def develop(release: bool) -> None:
    """Builds the package into its source folder in one cargo call, because a different set of crates would rebuild all
    crates."""
    files = _cargo(*PLUGINS, "passhost", "passhost-python", release=release)
    _carry(files)
    [module] = {file for file in files if _is_library(file, "-passhost")}
    shutil.copy2(module, PACKAGE / ("_passhost.pyd" if module.suffix == ".dll" else "_passhost.abi3.so"))


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Builds a wheel (PEP 517)."""
    _carry(_cargo(*PLUGINS, "passhost", release=True))
    name: str = maturin.build_wheel(folder, settings, metadata)
    return name


def build_editable(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Builds an editable installation, as for `pip install --editable` (PEP 660)."""
    _carry(_cargo(*PLUGINS, "passhost", release=True))
    name: str = maturin.build_editable(folder, settings, metadata)
    return name


def build_sdist(folder: str, settings: dict[str, Any] | None = None) -> str:
    """Fails, because the plugins are crates beside this folder, so a source distribution would be incomplete."""
    raise RuntimeError("passhost has no source distribution; build a wheel in a clone of the repository")


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    """Returns no requirements beyond those in pyproject.toml."""
    return []


get_requires_for_build_editable = get_requires_for_build_wheel

if __name__ == "__main__":
    develop("--release" in sys.argv[1:])
