//! Operators: how a plugin declares them, and how anyone asks for the type of a call.

use crate::PassError;
use crate::ir::{Call, Type};
use crate::metadata::{ArgKind, AttrType, OptionValue};
use crate::names::did_you_mean;
use crate::typing::legalized::Legalized;

/// Why a call has no type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The call does not fit its operator.
    #[error("{0}")]
    Wrong(String),
    /// No loaded plugin has the operator.
    #[error("no operator `{name}`{}", did_you_mean(.near))]
    UnknownOp {
        /// Name that was asked for.
        name: String,
        /// Nearest known names.
        near: Vec<String>,
    },
    /// The rule of the operator panicked, which is a fault of its plugin.
    #[error("{0}")]
    Panicked(String),
    /// There is no host to ask.
    #[error("no host: type inference of `{0}` needs the plugin that declares the operator")]
    NoHost(String),
}

impl InferError {
    /// The call does not fit: what was found, and what would be right.
    pub fn wrong(message: impl Into<String>) -> InferError {
        InferError::Wrong(message.into())
    }
}

/// Type and purity of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// Type of the result.
    pub ty: Type,
    /// Whether the call has no effect.
    pub pure: bool,
}

/// Anyone who can tell the type of a call: the host with its plugins, or a plugin through its host.
pub trait Infer {
    /// Type and purity of `call`. Its arguments have their types already.
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not fit it.
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError>;
}

/// The rule of one operator: the type of a call from the types of its arguments and its attributes.
///
/// Number and kind of arguments, and presence and type of attributes, were checked against the declaration before.
pub type InferFn = fn(Call<'_>) -> Result<Type, InferError>;

/// The legalization of one operator: a call as a PrimFunc. An [`InferError::Wrong`] says why this call has none, and the call
/// stays as it is. It may depend on the operator, its attributes, the types of its arguments, and arguments that are constants,
/// shapes and tuples; not on the bindings of its arguments, because calls of one [form](crate::walk::value_key::value_form) share their
/// legalization.
///
/// The arguments of the call have types; number and kind of them, and its attributes, were checked before.
pub type LegalizeFn = fn(Call<'_>) -> Result<Legalized, InferError>;

/// Declaration of an operator, a constant in its plugin. Later versions may have more fields, so leave out what is as in
/// [`OpDecl::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct OpDecl {
    /// Full name, as in `relax.nn.conv2d`.
    pub name: &'static str,
    /// Arguments in order.
    pub args: &'static [ArgDecl],
    /// Attributes in printing order.
    pub attrs: &'static [AttrDecl],
    /// Whether it has no effect.
    pub pure: bool,
    /// Documentation.
    pub doc: &'static str,
    /// Its rule.
    pub infer: InferFn,
    /// Its legalization, if it has one.
    pub legalize: Option<LegalizeFn>,
}

impl OpDecl {
    /// An operator without effect, arguments, attributes and legalization, whose calls have no type.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// const IDENTITY: OpDecl = OpDecl {
    ///     name: "acme.identity",
    ///     doc: "Its argument.",
    ///     args: &[ArgDecl { name: "data", ..ArgDecl::EMPTY }],
    ///     infer: |call| call.arg(0).map(|arg| arg.ty().to_owned()).ok_or_else(|| InferError::wrong("no argument")),
    ///     ..OpDecl::EMPTY
    /// };
    /// assert!(IDENTITY.pure && IDENTITY.legalize.is_none());
    /// ```
    pub const EMPTY: OpDecl = OpDecl {
        name: "",
        args: &[],
        attrs: &[],
        pure: true,
        doc: "",
        infer: |_| Err(InferError::wrong("the operator has no rule")),
        legalize: None,
    };
}

/// Declaration of an argument. Leave out what is as in [`ArgDecl::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct ArgDecl {
    /// Name.
    pub name: &'static str,
    /// What it must be.
    pub kind: ArgKind,
    /// Whether it may be left out (from the right).
    pub optional: bool,
}

impl ArgDecl {
    /// An argument of any kind that must be there.
    pub const EMPTY: ArgDecl = ArgDecl { name: "", kind: ArgKind::Any, optional: false };
}

/// Declaration of an attribute. Leave out what is as in [`AttrDecl::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct AttrDecl {
    /// Key.
    pub name: &'static str,
    /// What its value must be.
    pub ty: AttrType,
    /// Value when it is not written.
    pub default: DefaultDecl,
    /// Whether this attribute, and those after it, must be written with their names. For operators whose attributes TVM
    /// prints in another order than it takes them.
    pub by_name: bool,
}

impl AttrDecl {
    /// An attribute of any type that must be written, by its place or its name.
    pub const EMPTY: AttrDecl =
        AttrDecl { name: "", ty: AttrType::Any, default: DefaultDecl::Required, by_name: false };
}

/// Default of an attribute or option, as a constant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DefaultDecl {
    /// Must be written.
    Required,
    /// `None`.
    None,
    /// The value of another attribute of the operator; only for attributes.
    SameAs(&'static str),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(&'static str),
    /// Integers.
    Ints(&'static [i64]),
    /// Floats.
    Floats(&'static [f64]),
    /// Strings.
    Strs(&'static [&'static str]),
    /// Booleans.
    Bools(&'static [bool]),
}

impl DefaultDecl {
    /// The value, if there is one.
    pub fn value(&self) -> Option<OptionValue> {
        fn list<T: Copy>(items: &[T], item: impl Fn(T) -> OptionValue) -> OptionValue {
            OptionValue::List(items.iter().map(|value| item(*value)).collect())
        }
        Some(match *self {
            DefaultDecl::Required | DefaultDecl::None | DefaultDecl::SameAs(_) => return None,
            DefaultDecl::Bool(value) => OptionValue::Bool(value),
            DefaultDecl::Int(value) => OptionValue::Int(value),
            DefaultDecl::Float(value) => OptionValue::Float(value),
            DefaultDecl::Str(value) => OptionValue::Str(value.to_string()),
            DefaultDecl::Ints(items) => list(items, OptionValue::Int),
            DefaultDecl::Floats(items) => list(items, OptionValue::Float),
            DefaultDecl::Bools(items) => list(items, OptionValue::Bool),
            DefaultDecl::Strs(items) => list(items, |item| OptionValue::Str(item.to_string())),
        })
    }
}

impl InferError {
    /// As the error of a pass: with the operator that is called, and the place of the call.
    #[doc(hidden)]
    pub fn of_call(self, call: Call<'_>) -> PassError {
        let message = match (&self, call.op()) {
            (InferError::Wrong(_) | InferError::Panicked(_), Some(op)) => format!("`{op}`: {self}"),
            _ => self.to_string(),
        };
        PassError::new(message).at(call.value())
    }
}

impl From<InferError> for PassError {
    fn from(error: InferError) -> PassError {
        PassError::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{AttrsId, BodyBuilder, TypeId};

    /// As an author sees it: `ctx.infer(call)?`.
    #[test]
    fn an_error_names_the_operator_and_the_call() {
        let mut b = BodyBuilder::new();
        let exp = b.op("relax.exp");
        let call = b.call(exp, &[], AttrsId::NONE, TypeId::NONE, false, None);
        let of = |error: InferError| b.with(call, |value| error.clone().of_call(value.as_call().expect("a call")));
        let wrong = of(InferError::wrong("1 argument is missing"));
        assert_eq!((wrong.message.as_str(), wrong.node), ("`relax.exp`: 1 argument is missing", Some(0)));
        let unknown = of(InferError::UnknownOp { name: "relax.exp".to_string(), near: Vec::new() });
        assert_eq!((unknown.message.as_str(), unknown.node), ("no operator `relax.exp`", Some(0)));
    }
}
