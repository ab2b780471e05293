"""Reads ONNX models, under the name of TVM's importer."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from passhost._models import load_bytes, load_model
from passhost.ir.module import IRModule

__all__ = ["from_onnx"]


class Serializable(Protocol):
    """A model of the `onnx` package, or another object with the same method."""

    def SerializeToString(self) -> bytes:
        """Returns the model as bytes."""


def from_onnx(
    model: Serializable | bytes | str | os.PathLike[str],
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    dtype_dict: str | Mapping[str, str] | None = "float32",
    opset: int | None = None,
    keep_params_in_input: bool = False,
    sanitize_input_names: bool = True,
) -> IRModule:
    """Reads an ONNX model as a module with the function `main`.

    `model` is a `ModelProto` of the `onnx` package, its bytes, or the path of a file; only a path gives access to data
    in other files. `shape_dict` contains input shapes, and `opset` replaces the version of the standard operators. With
    `keep_params_in_input`, the weights become parameters after the inputs, and the attribute `params` of `main`
    contains their values, which `passhost.relax.frontend.detach_params` returns. Names are always converted to
    identifiers, and inputs keep their types.
    """
    if dtype_dict is not None and not isinstance(dtype_dict, str) and len(dtype_dict) > 0:
        warnings.warn("`dtype_dict` is not used; the types of inputs are those of the model", stacklevel=2)
    if not sanitize_input_names:
        warnings.warn("`sanitize_input_names` is not used; names are always made identifiers", stacklevel=2)
    options: dict[str, Any] = {"keep_params_in_input": bool(keep_params_in_input)}
    if shape_dict:
        sizes = {name: ",".join(str(int(size)) for size in shape) for name, shape in shape_dict.items()}
        options["shapes"] = [f"{name}={text}" for name, text in sizes.items()]
    if opset is not None:
        options["opset"] = int(opset)
    if isinstance(model, (str, os.PathLike)):
        return load_model(model, format="onnx", **options)
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        raise TypeError(f"model must be a ModelProto, bytes or a path, not an object of {kind}")
    return load_bytes("<model>", model, "onnx", **options)
