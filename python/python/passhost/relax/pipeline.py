"""Named Relax pipelines, as in TVM.

>>> from passhost import relax
>>> relax.get_pipeline("zero").info.name
'zero'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from passhost._context import PassContext
from passhost._pass_info import PassInfo
from passhost._passes import ModulePass, Pass, Sequential
from passhost.ir.module import IRModule
from passhost.passes import passes

__all__ = ["get_default_pipeline", "get_pipeline", "register_pipeline"]

_ZERO = ("LegalizeOps", "AnnotateTIROpPattern", "FoldConstant", "FuseOps", "FuseTIR")
_BUILD = (
    "LegalizeOps",
    "RewriteDataflowReshape",
    "ToNonDataflow",
    "RemovePurityChecking",
    "CallTIRRewrite",
    "ComputePrimValue",
    "AttachGlobalSymbol",
)


def _of(names: tuple[str, ...], name: str) -> Sequential:
    return Sequential([passes[f"relax.{each}"]() for each in names], name=name)


def zero_pipeline() -> Pass:
    """Returns a pipeline that legalizes operators, folds constants, and fuses operators."""
    return _of(_ZERO, "zero")


def default_build_pipeline() -> Pass:
    """Returns the passes that TVM runs before code generation, except those that passhost does not need."""

    def _pipeline(mod: IRModule, _ctx: PassContext) -> IRModule:
        return _of(_BUILD, "default_build")(mod)

    return ModulePass(PassInfo(0, "_pipeline"), _pipeline)


_PIPELINES: dict[str, Callable[..., Pass]] = {
    "zero": zero_pipeline,
    "default": default_build_pipeline,
    "default_build": default_build_pipeline,
}


def get_pipeline(name: str = "zero", **kwargs: Any) -> Pass:
    """Returns the pipeline named `name`: `zero`, `default`, `default_build`, or a registered one.

    `kwargs` are passed to the function that creates it. Raises `ValueError` if there is no such pipeline.
    """
    if name not in _PIPELINES:
        raise ValueError(f"unknown pipeline {name!r}; candidates are: {', '.join(_PIPELINES)}")
    return _PIPELINES[name](**kwargs)


def register_pipeline(name: str) -> Callable[[Callable[..., Pass]], Callable[..., Pass]]:
    """Registers a function that returns a pass as a named pipeline.

    >>> from passhost import passes, relax
    >>> @relax.register_pipeline("clean")
    ... def clean():
    ...     return passes.relax.DeadCodeElimination()
    >>> relax.get_pipeline("clean")
    relax.DeadCodeElimination()
    """
    if name in _PIPELINES:
        raise ValueError(f"the pipeline {name!r} is already registered")

    def register(function: Callable[..., Pass]) -> Callable[..., Pass]:
        _PIPELINES[name] = function
        return function

    return register


def get_default_pipeline(target: Any = None) -> Pass:
    """Returns the default pipeline, which is the same for every target."""
    return default_build_pipeline()
