"""Modules and functions as JSON."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from passhost import _provided
from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule


def save_json(node: Any) -> str:
    """Returns a module or function as JSON: its TVMScript, with the data of its constants."""
    if isinstance(node, IRModule):
        return json.dumps({"passhost": 1, "module": node.script()})
    if isinstance(node, BaseFunc):
        name = str(node.attrs.get("global_symbol", "main"))
        return json.dumps({"passhost": 1, "function": name, "module": _provided.alone(node, name).script()})
    raise TypeError(f"a module or a function has JSON, {type(node).__name__} has none; put it into a function")


def load_json(json_str: str, *, check_well_formed: bool = True) -> Any:
    """Loads the output of `save_json`. Raises `ValueError` for anything else, including TVM's JSON, which has another
    format."""
    record = json.loads(json_str)
    if not isinstance(record, dict) or record.get("passhost") != 1 or not isinstance(record.get("module"), str):
        raise ValueError("expected JSON that passhost.ir.save_json wrote; use passhost.tvm.from_tvm for modules of TVM")
    mod = _provided.from_source(record["module"], "<JSON>", check_well_formed=check_well_formed)
    return mod[record["function"]] if "function" in record else mod


def pickled(node: IRModule | BaseFunc) -> tuple[Any, ...]:
    """Returns how `pickle` restores an equal module or function, which may be ill-formed if this one is."""
    return partial(load_json, check_well_formed=False), (save_json(node),)


_provided.pickled = pickled
