//! The IR: modules, bodies, typed views, builders, rewriting.

pub mod attrs;
mod blocks;
pub mod body;
mod buffer;
pub mod constant;
pub mod erase;
#[doc(hidden)]
pub mod make;
pub mod module;
pub mod nested;
pub mod origins;
#[doc(hidden)]
pub mod purity;
pub mod records;
#[doc(hidden)]
pub mod storage;
mod target;
pub mod types;
pub mod value;
pub mod view;

pub use attrs::{Attr, AttrView, Dict};
pub use blocks::Block;
pub use body::{BodyKind, UseCounts};
pub use constant::{Array, Bf16, Constant, ConstantError, F16};
pub use make::builder::{AttrsId, BodyBuilder, NodeSpec, TypeId, V};
pub use make::import;
pub use make::validate::{self, SealError};
pub use module::ModuleEdit;
pub use nested::{Part, Parts};
pub use storage::body_handle::Body;
pub use storage::module_handle::Module;
pub use storage::sections::{RawView, Sections};
pub use storage::tensor::Tensor;
pub use types::loop_kind;
pub use types::{BufferType, DTensorType, DType, Dim, DimExpr, MAX_SIZE, Sym, TensorType, Ty, Type};
pub use value::{Call, Function, Region, Value};
pub use view::{Expr, Stmt};
