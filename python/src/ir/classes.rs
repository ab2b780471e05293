//! Caches the classes of the package, and creates their objects.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::collections::HashMap;

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

macro_rules! classes {
    ($($kind:ident $field:ident: $module:literal $name:literal;)*) => {
        /// The kind of an object of the package.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $(#[doc = $name] $kind,)*
        }

        /// Classes of the package: classes whose objects the host creates, and classes that are only recognized.
        #[allow(dead_code, reason = "some are only looked for")]
        pub(crate) struct Classes {
            $(pub(crate) $field: Py<PyType>,)*
            kinds: HashMap<usize, Kind>,
            /// The function `object.__new__`.
            maker: Py<PyAny>,
            /// The type of an expression whose type is unknown.
            pub(crate) missing: Py<PyAny>,
            /// The function `Op._of`.
            pub(crate) op_of: Py<PyAny>,
            /// The function `prim_type`.
            pub(crate) prim_type: Py<PyAny>,
            /// The function `scalar`.
            pub(crate) scalar: Py<PyAny>,
        }

        impl Classes {
            fn import(py: Python<'_>) -> PyResult<Classes> {
                $(let $field = py.import($module)?.getattr($name)?.cast_into::<PyType>()?.unbind();)*
                let kinds = HashMap::from([$(($field.as_ptr() as usize, Kind::$kind),)*]);
                let maker = py.import("builtins")?.getattr("object")?.getattr("__new__")?.unbind();
                let missing = py.import("passhost.ir.type")?.getattr("MISSING")?.unbind();
                let op_of = py.import("passhost.ir.expr")?.getattr("Op")?.getattr("_of")?.unbind();
                let prim = py.import("passhost.ir.prim")?;
                let (prim_type, scalar) = (prim.getattr("prim_type")?.unbind(), prim.getattr("scalar")?.unbind());
                Ok(Classes { $($field,)* kinds, maker, missing, op_of, prim_type, scalar })
            }
        }
    };
}

classes! {
    Var var: "passhost.ir.expr" "Var";
    DataflowVar dataflow_var: "passhost.relax.expr" "DataflowVar";
    GlobalVar global_var: "passhost.ir.expr" "GlobalVar";
    Op op: "passhost.ir.expr" "Op";
    Call call: "passhost.ir.expr" "Call";
    Tuple tuple: "passhost.ir.expr" "Tuple";
    TupleGetItem tuple_get: "passhost.ir.expr" "TupleGetItem";
    Constant constant: "passhost.ir.expr" "GenericConst";
    StringImm string: "passhost.ir.expr" "StringImm";
    DataTypeImm data_type: "passhost.ir.expr" "DataTypeImm";
    OpaqueExpr opaque: "passhost.ir.expr" "OpaqueExpr";
    EqualOp equal_op: "passhost.ir.expr" "EqualOp";
    ShapeExpr shape: "passhost.relax.expr" "ShapeExpr";
    ExternFunc extern_func: "passhost.relax.expr" "ExternFunc";
    If if_: "passhost.relax.expr" "If";
    SeqExpr seq: "passhost.relax.expr" "SeqExpr";
    Function function: "passhost.relax.expr" "Function";
    VarBinding var_binding: "passhost.relax.expr" "VarBinding";
    MatchCast match_cast: "passhost.relax.expr" "MatchCast";
    BindingBlock block: "passhost.relax.expr" "BindingBlock";
    DataflowBlock dataflow: "passhost.relax.expr" "DataflowBlock";
    IntImm int: "passhost.ir.prim" "IntImm";
    FloatImm float: "passhost.ir.prim" "FloatImm";
    Not not: "passhost.ir.prim" "Not";
    Cast cast: "passhost.ir.prim" "Cast";
    Type ty: "passhost.ir.type" "Type";
    PrimType prim: "passhost.ir.type" "PrimType";
    TupleType tuple_type: "passhost.ir.type" "TupleType";
    FuncType func_type: "passhost.ir.type" "FuncType";
    StringType string_type: "passhost.ir.type" "StringType";
    AnyType any_type: "passhost.relax.type" "AnyType";
    PackedFuncType packed_type: "passhost.relax.type" "PackedFuncType";
    ShapeType shape_type: "passhost.relax.type" "ShapeType";
    TensorType tensor_type: "passhost.relax.type" "TensorType";
    VDevice vdevice: "passhost.relax.global_info" "VDevice";
    Attrs attrs: "passhost.ir.attrs" "Attrs";
    DictAttrs dict_attrs: "passhost.ir.attrs" "DictAttrs";
    AttrObject attr_object: "passhost.ir.attrs" "AttrObject";
    DataType data_type_name: "passhost.ir.type" "DataType";
    PrimFunc prim_func: "passhost.tirx.function" "PrimFunc";
    Add add: "passhost.ir.prim" "Add";
    Sub sub: "passhost.ir.prim" "Sub";
    Mul mul: "passhost.ir.prim" "Mul";
    FloorDiv floor_div: "passhost.ir.prim" "FloorDiv";
    FloorMod floor_mod: "passhost.ir.prim" "FloorMod";
    Div div: "passhost.ir.prim" "Div";
    Mod mod_: "passhost.ir.prim" "Mod";
    Min min: "passhost.ir.prim" "Min";
    Max max: "passhost.ir.prim" "Max";
    Eq eq: "passhost.ir.prim" "EQ";
    Ne ne: "passhost.ir.prim" "NE";
    Lt lt: "passhost.ir.prim" "LT";
    Le le: "passhost.ir.prim" "LE";
    Gt gt: "passhost.ir.prim" "GT";
    Ge ge: "passhost.ir.prim" "GE";
    And and: "passhost.ir.prim" "And";
    Or or: "passhost.ir.prim" "Or";
    LShift shl: "passhost.ir.prim" "LShift";
    RShift shr: "passhost.ir.prim" "RShift";
    BitwiseAnd bit_and: "passhost.ir.prim" "BitwiseAnd";
    BitwiseOr bit_or: "passhost.ir.prim" "BitwiseOr";
    BitwiseXor bit_xor: "passhost.ir.prim" "BitwiseXor";
    Select select: "passhost.ir.prim" "Select";
    TensorRead tensor_read: "passhost.te.expr" "TensorRead";
    Reduce reduce: "passhost.te.expr" "Reduce";
    PairItem pair_item: "passhost.te.expr" "PairItem";
    IterVar iter_var: "passhost.te.expr" "IterVar";
}

/// Returns the classes of the package.
pub(crate) fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    CLASSES.get_or_try_init(py, || Classes::import(py))
}

impl Classes {
    /// Returns the kind of an object. It is determined by the object's class, or by the class of this package that the
    /// object's class inherits from.
    pub(crate) fn kind(&self, object: &Bound<'_, PyAny>) -> Option<Kind> {
        let class = object.get_type();
        if let Some(kind) = self.kinds.get(&(class.as_ptr() as usize)) {
            return Some(*kind);
        }
        class.mro().iter().find_map(|base| self.kinds.get(&(base.as_ptr() as usize)).copied())
    }

    /// Creates an object of a class without its fields.
    pub(crate) fn bare<'py>(&self, py: Python<'py>, class: &Py<PyType>) -> PyResult<Bound<'py, PyAny>> {
        self.maker.bind(py).call1((class,))
    }
}

/// Creates an object of a class with these fields: `made!(py, classes.tuple, "_fields": fields, "_ty": ty)`.
macro_rules! made {
    ($py:expr, $class:expr, $($field:literal: $value:expr),* $(,)?) => {{
        let object = $crate::ir::classes::classes($py)?.bare($py, &$class)?;
        $(object.setattr(pyo3::intern!($py, $field), $value)?;)*
        object
    }};
}

pub(crate) use made;
