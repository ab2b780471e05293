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
        return json.dumps({"passhost": 1, "module": node.script(show_meta=True)})
    if isinstance(node, BaseFunc):
        name = str(node.attrs.get("global_symbol", "main"))
        return json.dumps(
            {"passhost": 1, "function": name, "module": _provided.alone(node, name).script(show_meta=True)}
        )
    raise TypeError(f"only a module or function has JSON, not a {type(node).__name__}; put it into a function")


def load_json(json_str: str, *, check_well_formed: bool = True) -> Any:
    """Loads the output of `save_json`. Raises `ValueError` for anything else, including TVM's JSON, whose format is
    different."""
    record = json.loads(json_str)
    if not isinstance(record, dict) or record.get("passhost") != 1 or not isinstance(record.get("module"), str):
        raise ValueError("expected JSON written by passhost.ir.save_json; use passhost.tvm.from_tvm for TVM modules")
    mod = _provided.from_source(record["module"], "<JSON>", check_well_formed=check_well_formed)
    return mod[record["function"]] if "function" in record else mod


def pickled(node: IRModule | BaseFunc) -> tuple[Any, ...]:
    """Returns the function and arguments with which `pickle` restores a module or function, possibly ill-formed."""
    return partial(load_json, check_well_formed=False), (save_json(node),)


_provided.pickled = pickled
