"""Operators as functions: `relax.op.add(x, y)`, `relax.op.nn.conv2d(data, weight, strides=2)`.

These are the operators that plugins declare; their arguments, attributes, defaults and documentation come from the
metadata.

>>> from passhost import relax
>>> relax.op.nn.gelu.__name__
'gelu'
"""

from __future__ import annotations

from typing import Any

from passhost import _provided
from passhost.relax.op import special, special_nested
from passhost.relax.op.declared import Namespace

_NAMESPACE = Namespace("relax.", special_nested.BY_NAME)
# Operators that TVM also has without their namespace.
_OF_VISION = (
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_transform_loc",
    "non_max_suppression",
    "roi_align",
    "roi_pool",
)


def __getattr__(name: str) -> Any:
    """Returns an operator, or a namespace of operators."""
    found = getattr(special, name, None)
    if found is None or name not in special.__all__:
        found = getattr(_NAMESPACE.vision if name in _OF_VISION else _NAMESPACE, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Lists the operators and namespaces."""
    return sorted({*dir(_NAMESPACE), *special.__all__, *_OF_VISION})


def _operator(name: str) -> Any:
    return globals().get(name) or __getattr__(name)


_provided.relax_operator = _operator
