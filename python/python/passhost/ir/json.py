"""Modules and functions as JSON."""

from __future__ import annotations

import json
from typing import Any

from passhost.ir.function import BaseFunc
from passhost.ir.module import IRModule


def save_json(node: Any) -> str:
    """A module or function as JSON: its TVMScript, with the data of its constants."""
    if isinstance(node, IRModule):
        return json.dumps({"passhost": 1, "module": node.script()})
    if isinstance(node, BaseFunc):
        name = str(node.attrs.get("global_symbol", "main"))
        return json.dumps({"passhost": 1, "function": name, "module": IRModule({name: node}).script()})
    raise TypeError(f"a module or a function has JSON, {type(node).__name__} has none; put it into a function")


def load_json(json_str: str) -> Any:
    """What `save_json` wrote. Raises `ValueError` of anything else, as of JSON of TVM, which has another form."""
    from passhost.script import from_source

    record = json.loads(json_str)
    if not isinstance(record, dict) or record.get("passhost") != 1 or not isinstance(record.get("module"), str):
        raise ValueError("this is no JSON of passhost.ir.save_json; passhost.tvm.from_tvm takes modules of TVM")
    mod = from_source(record["module"], "<JSON>")
    return mod[record["function"]] if "function" in record else mod
