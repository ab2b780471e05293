"""Modules as JSON of TVM 0.27, which TVM reads much faster than TVMScript.

The JSON is a list of nodes that mention each other by their places. TVM itself says which fields a class has, and
which of them hold a number or data type instead of another node.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from passhost.ir import expr as ir_expr
from passhost.ir import prim
from passhost.ir import type as ir_type
from passhost.ir.attrs import AttrObject, Attrs, DictAttrs
from passhost.ir.expr import Call, GlobalVar, Op
from passhost.ir.module import IRModule
from passhost.ir.type import MISSING
from passhost.relax import expr as relax_expr
from passhost.relax import type as relax_type
from passhost.relax.global_info import DummyGlobalInfo, VDevice
from passhost.tirx import stmt
from passhost.tirx.buffer import BufferType
from passhost.tirx.function import PrimFunc

_NUMBERS = (1, 2, 3)
"""Static types of fields that hold an int, a bool or a float."""
_DTYPE = 5
"""That of fields that hold a data type."""


class NoJsonError(ValueError):
    """A module has what this JSON cannot say yet; its TVMScript can."""


_KEYS: dict[type, str] = {
    **{getattr(ir_expr, name): f"ir.{name}" for name in ("Call", "GenericConst", "Range", "StringImm", "Tuple")},
    **{getattr(ir_expr, name): f"ir.{name}" for name in ("TupleGetItem", "Var")},
    **{getattr(prim, name): f"ir.{name}" for name in ("IntImm", "FloatImm")},
    **{
        cls: f"prim.{name}"
        for name, cls in vars(prim).items()
        if isinstance(cls, type)
        and issubclass(cls, ir_expr.ExprWithOp)
        and cls.__module__ == prim.__name__
        and name not in ("IntImm", "FloatImm", "BinaryOpExpr", "CmpExpr", "LogicalExpr")
    },
    **{getattr(ir_type, name): f"ir.{name}" for name in ("PrimType", "StringType", "PointerType", "TupleType")},
    **{getattr(relax_type, name): f"relax.{name}" for name in ("AnyType", "PackedFuncType", "ShapeType", "TensorType")},
    **{
        getattr(relax_expr, name): f"relax.expr.{name}"
        for name in (
            "BindingBlock",
            "DataflowBlock",
            "DataflowVar",
            "If",
            "MatchCast",
            "SeqExpr",
            "ShapeExpr",
            "VarBinding",
        )
    },
    **{
        getattr(stmt, name): f"tirx.{name}"
        for name in ("AllocBuffer", "AttrStmt", "Bind", "BufferStore", "DeclBuffer", "Evaluate", "For", "IfThenElse")
    },
    **{getattr(stmt, name): f"tirx.{name}" for name in ("IterVar", "Return", "SeqStmt", "While")},
    **{getattr(stmt, name): f"s_tir.{name}" for name in ("MatchBufferRegion", "SBlock", "SBlockRealize")},
    stmt.TensorLoad: "ir.TensorLoad",
    stmt.TensorRegion: "ir.TensorRegion",
    ir_type.FuncType: "relax.FuncType",
    DummyGlobalInfo: "relax.DummyGlobalInfo",
}
"""What TVM calls the classes whose fields have the names that TVM gives them."""


_STATISTICS = ("max", "mean", "min", "prod", "std", "sum", "variance")
"""Operators whose attributes have the fields of others, too."""
_OWN_TYPES = {"ir.TensorRegion": "tirx.BufferRegionType"}
"""Types of expressions that passhost gives none."""


class _Reflection:
    """What TVM says of its classes and operators."""

    def __init__(self) -> None:
        self._tvm: Any = importlib.import_module("tvm")
        self._core: Any = importlib.import_module("tvm_ffi.core")
        self._fields: dict[str, list[tuple[str, int, Any]]] = {}
        self._by_names: dict[frozenset[str], list[str]] | None = None
        self._operators: frozenset[str] | None = None

    def fields(self, key: str) -> list[tuple[str, int, Any]]:
        """Name, static type and schema of each field of a class."""
        found = self._fields.get(key)
        if found is None:
            info = self._core._lookup_or_register_type_info_from_type_key(key)
            classes = [self._core._type_index_to_type_info(index) for index in info.type_ancestors[1:]]
            found = self._fields[key] = [
                (field.name, field.field_static_type_index, json.loads(field.metadata["type_schema"]))
                for cls in [*classes, info]
                for field in cls.fields
            ]
        return found

    def attrs_of(self, op: str, names: frozenset[str]) -> str:
        """The class of the attributes of an operator, which have these names."""
        key = str(self._tvm.ir.Op.get(op).attrs_type_key)
        if key:
            return key
        # Some operators do not say it: it is the only class with these fields.
        if self._by_names is None:
            self._by_names = {}
            for each in importlib.import_module("tvm_ffi.registry").get_registered_type_keys():
                if str(each).startswith("relax.attrs."):
                    fields = frozenset(name for name, *_ in self.fields(str(each)))
                    self._by_names.setdefault(fields, []).append(str(each))
        found = self._by_names.get(names, [])
        if len(found) > 1 and op.rpartition(".")[2] in _STATISTICS:
            return "relax.attrs.StatisticalAttrs"
        if len(found) != 1:
            raise NoJsonError(f"the class of the attributes of {op} is not known")
        return found[0]

    def operator(self, name: str) -> str:
        """What TVM calls an operator."""
        if self._operators is None:
            self._operators = frozenset(map(str, self._tvm.ir.Op.list_op_names()))
        other = name.replace("tirx.", "prim.", 1)
        if name not in self._operators and other not in self._operators:
            raise NoJsonError(f"TVM has no operator {name}")
        return name if name in self._operators else other


class _Writer:
    """Nodes in the order in which they are complete: each mentions those before it only."""

    def __init__(self, reflection: _Reflection) -> None:
        self.nodes: list[dict[str, Any]] = [{"type": "None"}]
        self._reflection = reflection
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []
        self._values: dict[tuple[str, Any], int] = {}
        self._globals: dict[str, int] = {}
        self._infos: list[int] = []
        self._special: dict[type, Callable[[Any], int]] = {
            BufferType: self._buffer_type,
            GlobalVar: lambda value: self._global(value.name_hint),
            Op: lambda value: self.value("ir.Op", reflection.operator(value.name)),
            Call: self._call,
            ir_expr.DataTypeImm: self._no,
            ir_expr.OpaqueExpr: self._no,
            relax_expr.Function: self._function,
            relax_expr.ExternFunc: self._extern,
            PrimFunc: self._prim_func,
            VDevice: self._device,
            stmt.AssertStmt: self._assert,
        }

    def _no(self, value: Any) -> int:
        raise NoJsonError(f"{type(value).__name__} has no JSON")

    def put(self, key: str, data: Any) -> int:
        """A node; gives its place."""
        self.nodes.append({"type": key, "data": data})
        return len(self.nodes) - 1

    def value(self, key: str, data: Any) -> int:
        """A node of a plain value, which is there once."""
        found = self._values.get((key, data))
        if found is None:
            found = self._values[(key, data)] = self.put(key, data)
        return found

    def string(self, text: str) -> int:
        """A string."""
        return self.value("ffi.String", str(text))

    def array(self, items: Any) -> int:
        """A list of objects."""
        return self.put("ffi.Array", [self.any(item) for item in items])

    def any(self, value: Any) -> int:
        """The place of any value."""
        if value is None or value is MISSING:
            return 0
        found = self._known.get(id(value))
        if found is not None:
            return found
        found = self._new(value)
        self._known[id(value)] = found
        self._kept.append(value)
        return found

    def _new(self, value: Any) -> int:
        special = self._special.get(type(value))
        if special is not None:
            return special(value)
        key = _KEYS.get(type(value))
        if key is not None:
            return self._object(key, value)
        if isinstance(value, bool):
            return self.value("bool", value)
        if isinstance(value, int):
            return self.value("int", value)
        if isinstance(value, float):
            return self.put("float", value)
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, AttrObject):
            return self._target(value)
        if isinstance(value, tuple | list):
            return self.array(value)
        if isinstance(value, DictAttrs):
            return self.put("ir.DictAttrs", {"__dict__": self.map(value)})
        if isinstance(value, Mapping):
            return self.map(value)
        if hasattr(value, "numpy"):
            return self.put("ffi.Tensor", _tensor(value))
        return self._no(value)

    def map(self, entries: Mapping[str, Any]) -> int:
        """Entries by strings."""
        return self.put(
            "ffi.Map", [place for key, value in entries.items() for place in (self.string(key), self.any(value))]
        )

    def _object(self, key: str, value: Any) -> int:
        return self.put(key, self._fields(key, lambda name: getattr(value, name, None)))

    def _fields(self, key: str, of: Callable[[str], Any]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name, static, schema in self._reflection.fields(key):
            if name == "span":
                data[name] = 0
            elif name == "annotations":
                data[name] = self._annotations(of(name))
            elif name == "ty":
                data[name] = self.any(of(name)) or self.put(_OWN_TYPES.get(key, "ir.Type"), {"span": 0})
            else:
                data[name] = self._field(static, schema, of(name))
        return data

    def _annotations(self, entries: Mapping[str, Any]) -> int:
        """Numbers among annotations are expressions."""
        made = {}
        for key, value in entries.items():
            if isinstance(value, bool | float | tuple | list):
                raise NoJsonError(f"an annotation that is a {type(value).__name__} has no JSON")
            made[key] = prim.scalar(value, "int32") if isinstance(value, int) else value
        return self.map(made)

    def _field(self, static: int, schema: Any, value: Any) -> Any:
        if static in _NUMBERS:
            return {1: int, 2: bool, 3: float}[static](value)
        if static == _DTYPE:
            return str(value)
        kind, args = schema["type"], schema.get("args", [])
        if kind == "Optional":
            return 0 if value is None else self._field(-1, args[0], value)
        if kind == "ffi.Array" and isinstance(value, tuple | list) and args:
            return self.put("ffi.Array", [self._item(args[0], item) for item in value])
        return self._item(schema, value)

    def _item(self, schema: Any, value: Any) -> int:
        """A value as a node of the kind that a field asks for."""
        kind = schema["type"]
        if value is None:
            return 0
        if kind in ("int", "ffi.BigInt") and not isinstance(value, bool):
            return self.value("int", int(value))
        if kind == "int":
            return self.value("int", int(value))
        if kind == "bool":
            return self.value("bool", bool(value))
        if kind == "float":
            return self.put("float", float(value))
        if kind == "DataType":
            return self.value("DataType", str(value))
        if kind == "ffi.String":
            return self.string(value)
        if kind == "ir.PrimType" and isinstance(value, str):
            return self.any(prim.prim_type(value))
        if kind == "ffi.Array":
            if not isinstance(value, tuple | list):
                raise NoJsonError(f"a list is expected, not a {type(value).__name__}")
            place = self._field(-1, schema, value)
            assert isinstance(place, int)
            return place
        is_plain = isinstance(value, tuple | list | Mapping | str) and not isinstance(value, Attrs)
        if is_plain and kind not in ("Any", "ffi.Map"):
            raise NoJsonError(f"a {type(value).__name__} as {kind} has no JSON")
        return self.any(value)

    def _buffer_type(self, ty: BufferType) -> int:
        if ty.tiled:
            raise NoJsonError("a buffer with a layout has no JSON")
        zero = prim.scalar(0, str(ty.shape[0].ty) if ty.shape else "int64")
        more = {"storage_scope": ty.scope_, "elem_offset": ty.elem_offset or zero, "allocated_addr": ()}
        return self.put(
            "tirx.BufferType", self._fields("tirx.BufferType", lambda name: more.get(name, getattr(ty, name, None)))
        )

    def _call(self, call: Call) -> int:
        attrs = 0
        if call.attrs is not None and isinstance(call.op, Op):
            attrs = self._attrs(self._reflection.attrs_of(call.op.name, frozenset(call.attrs)), call.attrs)
        elif call.attrs is not None:
            attrs = self.any(call.attrs)
        ty = self.any(call.ty) or self.put("ir.Type", {"span": 0})
        op, args, ty_args = self.any(call.op), self.array(call.args), self.array(call.ty_args)
        return self.put("ir.Call", {"span": 0, "ty": ty, "op": op, "args": args, "attrs": attrs, "ty_args": ty_args})

    def _attrs(self, key: str, attrs: Attrs) -> int:
        if not key or key == "ir.DictAttrs":
            return self.put("ir.DictAttrs", {"__dict__": self.map(attrs)})
        unknown = set(attrs) - {name for name, *_ in self._reflection.fields(key)}
        missing = {name for name, *_ in self._reflection.fields(key)} - set(attrs)
        if unknown or missing:
            raise NoJsonError(f"{key} has other fields than the attributes {sorted(unknown | missing)}")
        return self.put(key, self._fields(key, lambda name: attrs[name]))

    def _function(self, function: relax_expr.Function) -> int:
        return self._object("relax.expr.Function", function)

    def _prim_func(self, function: PrimFunc) -> int:
        of = {"ret_type": function._returns or ir_type.TupleType(())}
        fields = self._fields("tirx.PrimFunc", lambda name: of[name] if name in of else getattr(function, name))
        return self.put("tirx.PrimFunc", fields)

    def _target(self, value: AttrObject) -> int:
        """A target: only those that say all of themselves, as functions have them after passes."""
        facts = value.args[0][1] if value.name == "T.target" and len(value.args) == 1 else None
        if not isinstance(facts, Mapping) or not isinstance(facts.get("kind"), str):
            return self._no(value)
        rest = {key: each for key, each in facts.items() if key not in ("kind", "tag", "keys", "host")}
        host = facts.get("host")
        fields = {
            "kind": self.value("target.TargetKind", facts["kind"]),
            "tag": self.string(facts.get("tag", "")),
            "keys": self.put("ffi.Array", [self.string(key) for key in facts.get("keys", ())]),
            "attrs": self.map(rest),
            "host": 0 if host is None else self._target(AttrObject("T.target", ((None, host),))),
        }
        return self.put("target.Target", fields)

    def _assert(self, one: stmt.AssertStmt) -> int:
        more = {"error_kind": one.kind}
        return self.put(
            "tirx.AssertStmt", self._fields("tirx.AssertStmt", lambda name: more.get(name) or getattr(one, name, None))
        )

    def _extern(self, function: relax_expr.ExternFunc) -> int:
        return self.put(
            "relax.expr.ExternFunc",
            {
                "span": 0,
                "ty": self._extern_type(function.ty),
                "attrs": self.any(function.attrs),
                "global_symbol": self.string(function.global_symbol),
            },
        )

    def _extern_type(self, ty: Any) -> int:
        """Without a type of its own, a call says what it has."""
        if isinstance(ty, ir_type.FuncType) and ty.params is None:
            derive = self.value("ir.EnvFunc", "tvm.relax.type.infer_by_ty_args")
            fields = {"span": 0, "params": 0, "ret": self.any(ty.ret), "derive_func": derive, "purity": bool(ty.purity)}
            return self.put("relax.FuncType", fields)
        return self.any(ty)

    def _device(self, device: VDevice) -> int:
        if device.index is None or device.index >= len(self._infos):
            raise NoJsonError("a virtual device outside of the module has no JSON")
        return self._infos[device.index]

    def _global(self, name: str) -> int:
        found = self._globals.get(name)
        if found is None:
            raise NoJsonError(f"the module has no function {name!r}")
        return found

    def module(self, mod: IRModule) -> int:
        """The module; gives its place."""
        if mod.global_infos:
            raise NoJsonError("facts of a module have no JSON")
        functions = {var.name_hint: function for var, function in mod.functions_items()}
        for name, function in functions.items():
            fields = {"span": 0, "ty": self.any(function.ty), "name_hint": self.string(name)}
            self._globals[name] = self.put("ir.GlobalVar", fields)
        pairs = [place for name, one in functions.items() for place in (self._globals[name], self.any(one))]
        names = [place for name in functions for place in (self.string(name), self._globals[name])]
        fields = {
            "functions": self.put("ffi.Map", pairs),
            "global_var_map_": self.put("ffi.Map", names),
            "source_map": self.put("ir.SourceMap", {"source_map": self.put("ffi.Map", [])}),
            "attrs": self.put("ir.DictAttrs", {"__dict__": self.map(mod.attrs)}),
            "global_infos": self.put("ffi.Map", []),
        }
        return self.put("ir.IRModule", fields)


_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}


def _tensor(value: Any) -> str:
    """A tensor as TVM writes one: a header, device, data type, shape, and the elements."""
    array = np.ascontiguousarray(value.numpy())
    name = str(value.dtype)
    word = name.rstrip("0123456789")
    if word not in _CODES:
        raise NoJsonError(f"constants of {name} have no JSON")
    bits = int(name[len(word) :] or 8)
    head = np.array([0xDD5E40F096B4A13F, 0], "<u8").tobytes() + np.array([1, 0, array.ndim], "<i4").tobytes()
    dtype = bytes([_CODES[word], bits]) + np.array([1], "<u2").tobytes()
    data = array.tobytes()
    sizes = np.array([*array.shape, len(data)], "<i8").tobytes()
    return base64.b64encode(head + dtype + sizes + data).decode()


def module_json(mod: IRModule, reflection: _Reflection | None = None) -> str:
    """A module as JSON of TVM 0.27. Raises `NoJsonError` if it has what only TVMScript can say."""
    writer = _Writer(reflection or _Reflection())
    root = writer.module(mod)
    return json.dumps({"root_index": root, "nodes": writer.nodes, "metadata": {"tvm_version": "0.27.0"}})
