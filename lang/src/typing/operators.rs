//! Operators: their declaration by plugins, and the inference of types of calls.

use crate::PassError;
use crate::ir::{Call, Type};
use crate::metadata::{ArgKind, AttrType, OptionValue};
use crate::names::did_you_mean;
use crate::typing::legalized::Legalized;

/// The reason why a call cannot be typed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The call does not match its operator.
    #[error("{0}")]
    Wrong(String),
    /// No loaded plugin declares the operator.
    #[error("unknown operator `{name}`{}", did_you_mean(.near))]
    UnknownOp {
        /// The name of the operator.
        name: String,
        /// The nearest known names.
        near: Vec<String>,
    },
    /// The rule of the operator panicked, which is a bug of its plugin.
    #[error("{0}")]
    Panicked(String),
    /// The host is missing.
    #[error("type inference of `{0}` needs a host with the plugin that declares the operator")]
    NoHost(String),
}

impl InferError {
    /// Creates the error of a call that does not match its operator; the message names what was found and what was expected.
    pub fn wrong(message: impl Into<String>) -> InferError {
        InferError::Wrong(message.into())
    }
}

/// The type and the purity of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Inferred {
    /// Type of the result.
    pub ty: Type,
    /// True if the call has no effects.
    pub pure: bool,
}

/// An implementation of type inference for calls: the host with its plugins, or a plugin through its host.
pub trait Infer {
    /// Returns the type and purity of `call`, whose arguments have types.
    ///
    /// # Errors
    /// If the operator is unknown, or the call does not match it.
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError>;
}

/// The type rule of one operator: returns the type of a call, given the argument types and the attributes.
///
/// The arguments (number and kinds) and attributes (presence and types) were already checked against the declaration.
pub type InferFn = fn(Call<'_>) -> Result<Type, InferError>;

/// The legalization of one operator: converts a call to a PrimFunc. An [`InferError::Wrong`] is the reason why the call cannot be
/// legalized; the call is then kept. The result may depend on the operator, its attributes, the argument types, and arguments that are
/// constants, shapes or tuples, but not on the bindings of arguments, because calls with equal [forms](crate::walk::value_key::value_form)
/// share their legalization.
///
/// The arguments of the call have types; the arguments and attributes were already checked.
pub type LegalizeFn = fn(Call<'_>) -> Result<Legalized, InferError>;

/// The declaration of an operator, a constant in its plugin. Later versions may add fields, so take omitted fields from [`OpDecl::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct OpDecl {
    /// Full name, such as `relax.nn.conv2d`.
    pub name: &'static str,
    /// Arguments in order.
    pub args: &'static [ArgDecl],
    /// Attributes in printing order.
    pub attrs: &'static [AttrDecl],
    /// True if the operator has no effects.
    pub pure: bool,
    /// Documentation.
    pub doc: &'static str,
    /// Rule of the operator.
    pub infer: InferFn,
    /// Legalization of the operator, if it has one.
    pub legalize: Option<LegalizeFn>,
}

impl OpDecl {
    /// An operator without effect, arguments, attributes and legalization. Its calls remain untyped.
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
        infer: |_| Err(InferError::wrong("the operator does not have a rule")),
        legalize: None,
    };
}

/// The declaration of an argument. Take omitted fields from [`ArgDecl::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct ArgDecl {
    /// Name.
    pub name: &'static str,
    /// The required kind of value.
    pub kind: ArgKind,
    /// True if the argument may be omitted; only trailing arguments may be.
    pub optional: bool,
}

impl ArgDecl {
    /// A required argument of any kind.
    pub const EMPTY: ArgDecl = ArgDecl { name: "", kind: ArgKind::Any, optional: false };
}

/// The declaration of an attribute. Take omitted fields from [`AttrDecl::EMPTY`].
#[derive(Clone, Copy, Debug)]
pub struct AttrDecl {
    /// Key.
    pub name: &'static str,
    /// The required type of its value.
    pub ty: AttrType,
    /// The value of an omitted attribute.
    pub default: DefaultDecl,
    /// True if this and all later attributes must be passed by name; for operators whose attributes TVM does not print in parameter order.
    pub by_name: bool,
}

impl AttrDecl {
    /// A required attribute of any type, which can be passed by position or by name.
    pub const EMPTY: AttrDecl =
        AttrDecl { name: "", ty: AttrType::Any, default: DefaultDecl::Required, by_name: false };
}

/// The default of an attribute or option, as a constant.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum DefaultDecl {
    /// The value must not be omitted.
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
    /// Returns the value, if there is one.
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
    /// Converts the error to a pass error with the called operator and the position of the call.
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

    /// Uses the error as a plugin author does: `ctx.infer(call)?`.
    #[test]
    fn an_error_names_the_operator_and_the_call() {
        let mut b = BodyBuilder::new();
        let exp = b.op("relax.exp");
        let call = b.call(exp, &[], AttrsId::NONE, TypeId::NONE, false, None);
        let of = |error: InferError| b.with(call, |value| error.clone().of_call(value.as_call().expect("a call")));
        let wrong = of(InferError::wrong("1 argument is missing"));
        assert_eq!((wrong.message.as_str(), wrong.node), ("`relax.exp`: 1 argument is missing", Some(0)));
        let unknown = of(InferError::UnknownOp { name: "relax.exp".to_string(), near: Vec::new() });
        assert_eq!((unknown.message.as_str(), unknown.node), ("unknown operator `relax.exp`", Some(0)));
    }
}
