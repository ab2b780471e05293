//! Concatenates several PrimFuncs into a new PrimFunc: the last step of fusion.

mod shapes;
mod write;

use crate::PassError;
use crate::ir::records::{buffer_of, kind};
use crate::ir::{Body, BufferType, DType, Dim, Sym, Value};
use foldhash::fast::RandomState;
use shapes::Shapes;
use std::collections::HashMap;
use write::Writer;

/// A buffer of the joined function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JoinedBuffer(usize);

/// The argument for a parameter of a joined function.
#[derive(Clone, Debug)]
pub enum JoinArg {
    /// A buffer.
    Buffer(JoinedBuffer),
    /// A new buffer with the given shape and otherwise the parameter's type.
    New(Vec<Dim>),
    /// A scalar.
    Scalar(Dim),
}

/// A parameter of the new function.
#[derive(Clone, Copy, Debug)]
pub enum JoinParam {
    /// A buffer.
    Buffer(JoinedBuffer),
    /// A symbolic variable.
    Scalar(Sym),
}

/// A PrimFunc joined from PrimFuncs of schedulable blocks. Dimensions of its buffers mention the symbolic variables of the function
/// `owner`.
///
/// The example joins `B[i] = A[i] * 2` with itself, through an intermediate buffer:
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::tir::{Join, JoinArg, JoinParam, prim_func};
///
/// let double = prim_func(|t| {
///     let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[8], DType::F32));
///     t.serial("i", 8, |i| t.store(b, [i], t.load(a, [i]) * 2.0));
/// })?;
/// let mut join = Join::new(&double);
/// let input = join.buffer("input", plugin_api::ir::BufferType::new(vec![Dim::Int(8)], DType::F32));
/// let between = join.take(&double, &[JoinArg::Buffer(input), JoinArg::New(vec![Dim::Int(8)])])?[0];
/// let output = join.take(&double, &[JoinArg::Buffer(between), JoinArg::New(vec![Dim::Int(8)])])?[0];
/// let both = join.finish(&[JoinParam::Buffer(input), JoinParam::Buffer(output)])?;
/// assert_eq!(both.values().filter(|value| matches!(value.stmt(), Some(Stmt::For { .. }))).count(), 2);
/// assert_eq!(both.values().filter(|value| matches!(value.view(), Expr::Buffer)).count(), 1);
/// # Ok::<(), PassError>(())
/// ```
pub struct Join<'m> {
    owner: &'m Body,
    buffers: Vec<Planned>,
    allocs: Vec<Alloc<'m>>,
    steps: Vec<Step<'m>>,
    /// The number of new buffers with each name.
    named: HashMap<String, usize>,
}

/// A buffer that will be written.
struct Planned {
    name: String,
    ty: BufferType,
}

/// A buffer that the function allocates, unless it becomes a parameter.
enum Alloc<'m> {
    New(JoinedBuffer),
    /// A buffer allocated by a joined function, and the number of that function's step.
    Old(usize, Value<'m>),
}

/// A joined function, with the values of its parameters.
struct Step<'m> {
    function: &'m Body,
    buffers: HashMap<u32, JoinedBuffer, RandomState>,
    scalars: HashMap<u32, Dim, RandomState>,
    shapes: Shapes,
}

impl<'m> Join<'m> {
    /// Creates an empty function.
    pub fn new(owner: &'m Body) -> Join<'m> {
        Join { owner, buffers: Vec::new(), allocs: Vec::new(), steps: Vec::new(), named: HashMap::new() }
    }

    /// Adds a buffer for use as a parameter.
    pub fn buffer(&mut self, name: &str, ty: BufferType) -> JoinedBuffer {
        self.buffers.push(Planned { name: name.to_string(), ty });
        JoinedBuffer(self.buffers.len() - 1)
    }

    /// Appends the content of a function with the given arguments; returns the new buffers among these. Its allocations move to the joined
    /// function.
    ///
    /// # Errors
    /// If the function does not consist of schedulable blocks, or its parameters do not match the arguments.
    pub fn take(&mut self, function: &'m Body, args: &[JoinArg]) -> Result<Vec<JoinedBuffer>, PassError> {
        if function.root().attr("s_tir").is_none() {
            return Err(PassError::new("only functions made of schedulable blocks (`s_tir=True`) can be fused"));
        }
        let params = params(function)?;
        if params.len() != args.len() {
            let message = format!("the PrimFunc takes {} arguments, found {}", params.len(), args.len());
            return Err(PassError::new(message));
        }
        let number = self.steps.len();
        self.allocs.extend(root_allocs(function).map(|alloc| Alloc::Old(number, alloc)));
        let (mut buffers, mut scalars) = (HashMap::default(), HashMap::default());
        let (mut shapes, mut new, mut pairs) = (Shapes::default(), Vec::new(), Vec::new());
        for ((param, buffer), arg) in params.iter().zip(args) {
            if let (None, JoinArg::Scalar(dim)) = (buffer, arg) {
                scalars.insert(param.word(), dim.clone());
                param.symbol().into_iter().for_each(|sym| shapes.bind(sym, dim));
            }
        }
        for ((param, buffer), arg) in params.iter().zip(args) {
            let name = param.name().unwrap_or("_");
            let Some(buffer) = buffer else {
                match arg {
                    JoinArg::Scalar(_) => continue,
                    _ => {
                        return Err(PassError::new(format!(
                            "parameter `{name}` is a scalar, but the argument is a tensor"
                        )));
                    }
                }
            };
            let ty = buffer.as_buffer_type().ok_or_else(|| PassError::new(format!("`{name}` must be a buffer")))?;
            let joined = match arg {
                JoinArg::Buffer(joined) => *joined,
                JoinArg::New(shape) => {
                    let name = self.name_of_new(buffer.name().unwrap_or("out"));
                    let joined = self.buffer(&name, ty.viewed(shape.clone()));
                    self.allocs.push(Alloc::New(joined));
                    new.push(joined);
                    joined
                }
                JoinArg::Scalar(_) => {
                    return Err(PassError::new(format!(
                        "parameter `{name}` is a buffer, but the argument is a scalar"
                    )));
                }
            };
            shapes.learn(&ty.shape, &self.buffers[joined.0].ty.shape);
            pairs.push((name, ty.shape, joined));
            buffers.insert(buffer.word(), joined);
        }
        // A later parameter may have determined the shape of an earlier parameter.
        for (name, shape, joined) in pairs {
            shapes.check(&shape, &self.buffers[joined.0].ty.shape).map_err(|error| {
                PassError::new(format!(
                    "the shape of parameter `{name}` of a PrimFunc differs from the shape of its argument: {error}"
                ))
            })?;
        }
        self.steps.push(Step { function, buffers, scalars, shapes });
        Ok(new)
    }

    /// Returns a name for the intermediate result that is written to a parameter.
    fn name_of_new(&mut self, param: &str) -> String {
        let number = self.named.entry(param.to_string()).or_insert(0);
        *number += 1;
        match *number {
            1 => format!("{param}_intermediate"),
            number => format!("{param}_intermediate_{}", number - 1),
        }
    }

    /// Writes the function, which is private. It allocates buffers that are not parameters, in the order of their creation.
    ///
    /// # Errors
    /// If a joined function contains a declaration that cannot be moved.
    pub fn finish(self, params: &[JoinParam]) -> Result<Body, PassError> {
        Writer::write(&self, params)
    }
}

/// Returns the parameters of a function, with the buffer of each buffer parameter.
fn params(function: &Body) -> Result<Vec<(Value<'_>, Option<Value<'_>>)>, PassError> {
    let children = || function.root().region().children();
    let matched = |param: Value<'_>| {
        let of_param = |value: &Value<'_>| value.kind() == kind::BUFFER && value.operand(0) == Some(param);
        children().find(of_param)
    };
    let mut params = Vec::new();
    for param in children().filter(|value| value.kind() == kind::PARAM) {
        let buffer = match param.as_buffer_type() {
            Some(_) => Some(param),
            None if is_number(param.ty().dtype()) => None,
            None => match matched(param) {
                Some(buffer) => Some(buffer),
                None => {
                    let name = param.name().unwrap_or("_");
                    return Err(PassError::new(format!("parameter `{name}` is neither a buffer nor a scalar")));
                }
            },
        };
        if buffer.unwrap_or(param).operands().len() > usize::from(buffer.is_some_and(|buffer| buffer != param)) {
            return Err(PassError::new("the shape of a parameter is not arithmetic on integers"));
        }
        params.push((param, buffer));
    }
    Ok(params)
}

fn is_number(dtype: DType) -> bool {
    dtype.is_int() || dtype.is_float() || dtype == DType::BOOL
}

/// Returns the explicit outermost block of a function, if any.
fn root_block(function: &Body) -> Option<Value<'_>> {
    let mut rest = function.root().statements();
    let root = rest.next().filter(|root| root.kind() == kind::SBLOCK && rest.next().is_none())?;
    (root.block_iters().next().is_none()).then_some(root)
}

/// Iterates over the buffers allocated by the function itself, not by a block inside it.
fn root_allocs(function: &Body) -> impl Iterator<Item = Value<'_>> {
    let of_block = root_block(function).into_iter().flat_map(|root| root.region().children());
    let all = function.root().region().children().chain(of_block);
    all.filter(|value| value.kind() == kind::BUFFER && value.node().is_some_and(|node| node.a == buffer_of::BLOCK))
}
