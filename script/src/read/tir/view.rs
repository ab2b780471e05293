//! Reads `A.view(…)`: a different shape or data type for the data of a buffer.

use crate::read::arguments::{accept_named, dtype_of, keyword};
use crate::read::tir::reader::{E, Is, TirReader};
use crate::words::diagnostic::Diagnostic;
use crate::words::syntax::{Read, span};
use passhost_lang::ir::records::{buffer_of, kind};
use passhost_lang::ir::{AttrsId, BufferType, DType, Dim, NodeSpec, Type, V};
use ruff_python_ast::{Expr, ExprCall};

const USAGE: &str = "A.view(16, 16), A.view(-1), A.view(\"int32\")";

impl<'a> TirReader<'a> {
    /// Reads `name = A.view(16, 16)` or `name = A.view("int32")`. Strides and offset are those of `A`, including
    /// their data types.
    pub(super) fn view(&mut self, name: &'a str, of: &'a Expr, call: &'a ExprCall) -> Read<()> {
        accept_named(call, &["layout"], USAGE)?;
        if let Some(layout) = keyword(call, "layout").filter(|layout| !layout.is_none_literal_expr()) {
            return Err(Diagnostic::new(span(layout), "views with a different layout are not supported").help(USAGE));
        }
        let source = self.buffer(of)?;
        let Type::Buffer(viewed) = self.b.type_owned(source.ty) else {
            return Err(Diagnostic::new(span(of), "expected a buffer"));
        };
        let scope = if viewed.scope.is_empty() { "global".to_string() } else { viewed.scope.clone() };
        let ty = self.b.ty(&Type::Pointer { dtype: source.dtype, scope });
        let data = self.b.node(NodeSpec::new(kind::BUFFER_PART).ty(ty), &[source.v], None);
        let mut extras = Vec::new();
        let (buffer, recast) = match &*call.arguments.args {
            [Expr::StringLiteral(_)] => {
                let dtype = dtype_of(&call.arguments.args[0])?;
                let Some(buffer) = viewed.recast(dtype) else {
                    let message = format!("the last dimension and the offset are not multiples of the size of {dtype}");
                    return Err(Diagnostic::new(span(call), message).help(USAGE));
                };
                (buffer, dtype != viewed.dtype)
            }
            dims => {
                let dims = dims.iter().map(|dim| self.buffer_dim(dim, &mut extras)).collect::<Read<_>>()?;
                (viewed.viewed(inferred(&viewed, dims, call)?), false)
            }
        };
        let one = buffer.shape.len() == 1 && buffer.shape[0].as_int() == Some(1);
        let flat = viewed.shape.len() == 1 && (recast || source.is == Is::Scalar);
        let of = if viewed.tiled { buffer_of::VIEW } else { buffer_of::DECL };
        let ops: Vec<V> = std::iter::once(data).chain(extras).collect();
        let e = self.add_buffer(name, buffer, of, &ops, AttrsId::NONE);
        if one && flat && viewed.tiled {
            // A single element has the same layout whatever its origin, so the view counts as a scalar.
            self.define_name(name, E { is: Is::Scalar, ..e });
        }
        Ok(())
    }
}

/// Returns the dimensions of a view, in which `-1` is the number of remaining elements.
fn inferred(viewed: &BufferType, mut dims: Vec<Dim>, call: &ExprCall) -> Read<Vec<Dim>> {
    let asked: Vec<usize> = (0..dims.len()).filter(|i| dims[*i].as_int().is_some_and(|dim| dim < 0)).collect();
    let refused = |message: &str| Err(Diagnostic::new(span(call), message.to_string()).help(USAGE));
    match asked[..] {
        [] => return Ok(dims),
        [at] if dims[at].as_int() == Some(-1) => {
            let product = |dims: &[&Dim]| dims.iter().try_fold(1i64, |all, dim| all.checked_mul(dim.as_int()?));
            let others: Vec<&Dim> = dims.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, dim)| dim).collect();
            let all: Vec<&Dim> = viewed.shape.iter().collect();
            let (Some(all), Some(others)) = (product(&all), product(&others).filter(|n| *n > 0)) else {
                return refused(
                    "the remaining extent cannot be inferred, because other extents are not constant; specify it",
                );
            };
            // The result is as wide as the widest operand.
            let numbers = viewed.shape.iter().chain(&dims);
            let wide = numbers.map(Dim::dtype).max_by_key(|dtype| dtype.bits());
            dims[at] = Dim::int(all / others, wide.unwrap_or(DType::I32));
        }
        _ => return refused("at most one extent of a view can be -1"),
    }
    Ok(dims)
}
