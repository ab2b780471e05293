"""Reads PyTorch's exported programs, under the name of TVM's importer.

PyTorch is needed only for programs in memory.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from passhost._models import load_bytes, load_model
from passhost.ir.module import IRModule

__all__ = ["from_exported_program"]


def from_exported_program(
    exported_program: Any,
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Callable[..., Any]] | None = None,
    run_ep_decomposition: bool = True,
    **options: Any,
) -> IRModule:
    """Reads an exported program of PyTorch as a module with the function `main`.

    `exported_program` is an `ExportedProgram`, the bytes of an archive that `torch.export.save` wrote, or the path of a
    file. With `keep_params_as_input`, the parameters of the model become parameters after the inputs, and the attribute
    `params` of `main` contains their values, which `passhost.relax.frontend.detach_params` returns. With
    `unwrap_unit_return_tuple`, a single result is returned directly, not in a tuple. With `no_bind_return_tuple`, the
    results are the outputs of the dataflow block, and the tuple follows the block.

    Before a program in memory is read, `run_decompositions()` replaces operators that change tensors in place, unless
    `run_ep_decomposition` is false; an archive is read as it is. `custom_convert_map` is not supported. `options` are
    further options of the reader, which `passhost explain pt2` shows.
    """
    if custom_convert_map:
        remedy = "`allow_unknown=True` keeps unknown operators as calls"
        raise NotImplementedError(f"`custom_convert_map` is not supported; {remedy}")
    options["keep_params_as_input"] = bool(keep_params_as_input)
    options["unwrap_unit_return_tuple"] = bool(unwrap_unit_return_tuple)
    options["no_bind_return_tuple"] = bool(no_bind_return_tuple)
    if isinstance(exported_program, (str, os.PathLike)):
        return load_model(exported_program, format="pt2", **options)
    if not isinstance(exported_program, (bytes, bytearray, memoryview)):
        exported_program = _saved(exported_program, run_ep_decomposition)
    return load_bytes("<exported program>", exported_program, "pt2", **options)


def _saved(program: Any, decompose: bool) -> bytes:
    """Returns a program in memory as an archive."""
    # A program in memory exists only if PyTorch is loaded.
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(program, torch.export.ExportedProgram):
        kind = f"{type(program).__module__}.{type(program).__qualname__}"
        raise TypeError(f"exported_program must be an ExportedProgram, bytes or a path, not an object of {kind}")
    if decompose:
        program = program.run_decompositions()
    archive = io.BytesIO()
    torch.export.save(program, archive)
    return archive.getvalue()
