"""Descriptions of the arguments of exported methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tensor:
    """A tensor. Dimensions are integers, or names of symbolic dimensions, which the arguments of a method share."""

    shape: Sequence[int | str]
    dtype: str

    def __post_init__(self) -> None:
        """Checks the dimensions."""
        for dim in self.shape:
            if isinstance(dim, bool) or not isinstance(dim, int | str):
                raise TypeError(f"a dimension must be an integer or a name, not {dim!r}")
