//! The IR: modules, bodies, typed views, builders, rewriting.

pub mod attrs;
pub mod body;
mod buffer;
pub mod builder;
mod dims;
pub mod edit;
mod equal;
pub(crate) mod forms;
pub mod import;
pub mod module;
pub mod nested;
mod pool;
mod purity;
pub mod records;
mod target;
pub mod types;
pub mod value;
pub mod verify;
pub mod view;

pub use crate::abi::module::Module;
pub use crate::abi::view::{Body, RawView, Sections, Tensor};
pub use attrs::{Attr, AttrView, Dict};
pub use body::BodyKind;
pub use builder::{AttrsId, BodyBuilder, NodeSpec, TypeId, V};
pub use edit::Edit;
pub use module::ModuleEdit;
pub use nested::{Part, Parts};
pub use types::{BufferType, DTensorType, DType, Dim, DimExpr, MAX_SIZE, Sym, TensorType, Ty, Type};
pub use value::{Call, Function, Region, Value};
pub use verify::SealError;
pub use view::{Expr, Stmt};
