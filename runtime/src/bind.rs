//! Binds the arguments of a call: memory, scalars, and shape variables.

use crate::fault::{Fault, FaultKind};
use crate::kernel::Arg;
use crate::limits::Limits;
use crate::program::{Param, ParamKind, Program, Reg, Scalar, TensorParam};
use crate::tensor::Tensor;
use passhost_lang::ir::DimExpr;
use passhost_lang::ir::{DType, Dim};
use passhost_lang::scalar::PrimOp;
use std::collections::BTreeMap;

/// The initial state of a run: memory and registers.
pub struct Bound<'m> {
    /// The memory of each storage.
    pub memory: Vec<Given<'m>>,
    /// Initialized integer registers.
    pub ints: Vec<(Reg, i64)>,
    /// Initialized float registers; each value is representable in the register's type.
    pub floats: Vec<(Reg, f64)>,
}

/// Memory of a storage, in words of 8 bytes, and its size in bytes.
pub enum Given<'m> {
    /// Memory allocated by the program.
    None,
    /// A read-only tensor.
    Read(&'m [u64], usize),
    /// A tensor that the program may read and write.
    Write(&'m mut [u64], usize),
}

/// Checks the arguments of a call.
///
/// # Errors
/// Fails if the arguments do not match the parameters, or if the limits do not allow copying a shared tensor that
/// is written.
pub fn bind<'m>(program: &Program, args: &'m mut [Arg<'_>], limits: &Limits) -> Result<Bound<'m>, Fault> {
    if args.len() != program.params.len() {
        return Err(FaultKind::ArgumentCount { wanted: program.params.len(), found: args.len() }.into());
    }
    let mut bound = Bound { memory: Vec::new(), ints: Vec::new(), floats: Vec::new() };
    bound.memory.resize_with(program.storages.len(), || Given::None);
    let mut symbols = BTreeMap::new();
    for (param, arg) in program.params.iter().zip(&*args) {
        if let ParamKind::Scalar(reg) = param.kind {
            scalar(param, program.registers[reg.index()], reg, arg, &mut bound, &mut symbols)?;
        }
    }
    shapes(program, args, &mut symbols)?;
    for symbol in &program.symbols {
        let value = symbols.get(&symbol.id).copied();
        let value = value.ok_or_else(|| Fault::unsupported("a shape variable that the arguments do not bind"))?;
        bound.ints.push((symbol.reg, value));
    }
    for (param, arg) in program.params.iter().zip(args) {
        if let ParamKind::Tensor(TensorParam { storage, .. }) | ParamKind::Handle { storage } = param.kind {
            let is_written = program.storages[storage as usize].is_written;
            bound.memory[storage as usize] = memory(param, is_written, arg, limits)?;
        }
    }
    Ok(bound)
}

fn wrong(param: &Param, wanted: impl Into<String>, found: impl Into<String>) -> Fault {
    let parameter = param.name.clone();
    FaultKind::WrongArgument { parameter, wanted: wanted.into(), found: found.into() }.into()
}

/// Describes an argument in a message.
fn described(arg: &Arg<'_>) -> String {
    let tensor = |tensor: &Tensor| format!("a tensor of {} and shape {:?}", tensor.dtype(), tensor.shape());
    match arg {
        Arg::In(of) => tensor(of),
        Arg::Out(of) => tensor(of),
        Arg::Int(value) => format!("the scalar {value}"),
        Arg::Float(value) => format!("the scalar {value:?}"),
    }
}

fn scalar(
    param: &Param,
    of: Scalar,
    reg: Reg,
    arg: &Arg<'_>,
    bound: &mut Bound<'_>,
    symbols: &mut BTreeMap<u32, i64>,
) -> Result<(), Fault> {
    let misfit = || wrong(param, format!("a scalar of {of}"), described(arg));
    match (arg, of.is_float()) {
        (Arg::Int(value), false) => {
            let (low, high) = of.range();
            if !(low..=high).contains(value) {
                return Err(misfit());
            }
            bound.ints.push((reg, *value));
            symbols.extend(param.symbol.map(|symbol| (symbol, *value)));
        }
        (Arg::Float(value), true) => bound.floats.push((reg, of.rounded(*value))),
        (Arg::Int(value), true) => bound.floats.push((reg, of.rounded(*value as f64))),
        _ => return Err(misfit()),
    }
    Ok(())
}

fn tensor<'a>(arg: &'a Arg<'_>) -> Option<&'a Tensor> {
    match arg {
        Arg::In(tensor) => Some(tensor),
        Arg::Out(tensor) => Some(tensor),
        _ => None,
    }
}

/// Binds shape variables to the extents of the arguments. The first dimension that is a single variable sets the
/// variable; later dimensions must agree.
fn shapes(program: &Program, args: &[Arg<'_>], symbols: &mut BTreeMap<u32, i64>) -> Result<(), Fault> {
    let tensors: Vec<(&Param, &TensorParam, &Arg<'_>)> = program
        .params
        .iter()
        .zip(args)
        .filter_map(|(param, arg)| match &param.kind {
            ParamKind::Tensor(of) => Some((param, of, arg)),
            _ => None,
        })
        .collect();
    for (param, of, arg) in &tensors {
        let wanted =
            || wrong(param, format!("a tensor of {} with {} dimensions", of.dtype, of.shape.len()), described(arg));
        let found = tensor(arg).ok_or_else(wanted)?;
        if found.dtype() != of.dtype && !is_same_type(found.dtype(), of.dtype) || found.shape().len() != of.shape.len()
        {
            return Err(wanted());
        }
        let strides = compact(found.shape());
        let dims = of.shape.iter().zip(found.shape()).chain(of.strides.iter().zip(&strides));
        for (dim, value) in dims.chain([(&of.offset, &0)]) {
            if let Dim::Var(sym) = dim {
                symbols.entry(sym.id).or_insert(*value);
            }
        }
    }
    for (param, of, arg) in &tensors {
        let Some(found) = tensor(arg) else { continue };
        let strides = compact(found.shape());
        let shape: Vec<Option<i64>> = of.shape.iter().map(|dim| value_of(dim, symbols)).collect();
        if !shape.iter().copied().eq(found.shape().iter().map(|extent| Some(*extent))) {
            let known: Vec<String> =
                shape.iter().map(|extent| extent.map_or("?".to_string(), |extent| extent.to_string())).collect();
            let wanted = format!("a tensor of {} and shape [{}]", of.dtype, known.join(", "));
            return Err(wrong(param, wanted, described(arg)));
        }
        // The stride of a dimension of extent 1 is irrelevant.
        let strides_fit = of
            .strides
            .iter()
            .zip(&strides)
            .zip(found.shape())
            .all(|((dim, stride), extent)| *extent <= 1 || value_of(dim, symbols) == Some(*stride));
        if !strides_fit || value_of(&of.offset, symbols) != Some(0) {
            return Err(wrong(param, "a tensor that is not contiguous or has an offset", "a contiguous one"));
        }
    }
    Ok(())
}

/// Returns true if the types are equal. `bool` also equals the one-bit integer used in older modules.
fn is_same_type(a: DType, b: DType) -> bool {
    Scalar::of(a) == Some(Scalar::Bool) && Scalar::of(b) == Some(Scalar::Bool) && a.lanes() == b.lanes()
}

fn compact(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i]);
    }
    strides
}

/// Evaluates an operation in a dimension; `None` if the result is undefined or exceeds 64 bits.
pub(crate) fn computed(op: PrimOp, x: i64, y: i64) -> Option<i64> {
    match op {
        PrimOp::Shl => u32::try_from(y).ok().and_then(|y| x.checked_shl(y)),
        PrimOp::Shr => u32::try_from(y).ok().and_then(|y| x.checked_shr(y)),
        PrimOp::BitAnd => Some(x & y),
        PrimOp::BitOr => Some(x | y),
        PrimOp::BitXor => Some(x ^ y),
        PrimOp::Div => x.checked_div(y),
        op => op.fold(x, y),
    }
}

/// Evaluates a dimension. All its variables must be bound.
fn value_of(dim: &Dim, symbols: &BTreeMap<u32, i64>) -> Option<i64> {
    let expr = match dim {
        Dim::Int(value) => return Some(*value),
        Dim::Var(sym) => return symbols.get(&sym.id).copied(),
        Dim::Expr(expr) => expr,
    };
    match &**expr {
        DimExpr::Int(value, _) => Some(*value),
        DimExpr::Binary(PrimOp::If, _, cond, both) => {
            let (then, otherwise) = both.choice()?;
            value_of(if value_of(cond, symbols)? != 0 { then } else { otherwise }, symbols)
        }
        DimExpr::Binary(op, _, a, b) => computed(*op, value_of(a, symbols)?, value_of(b, symbols)?),
        DimExpr::Unary(PrimOp::Not, _, a) => Some((value_of(a, symbols)? == 0).into()),
        DimExpr::Unary(_, dtype, a) => {
            let value = value_of(a, symbols)?;
            Some(Scalar::of(*dtype).filter(|to| !to.is_float()).map_or(value, |to| to.wrap(value)))
        }
        DimExpr::Float(..) => None,
    }
}

fn memory<'m>(param: &Param, is_written: bool, arg: &'m mut Arg<'_>, limits: &Limits) -> Result<Given<'m>, Fault> {
    match arg {
        Arg::In(_) if is_written => Err(wrong(param, "written by the function", "read-only")),
        Arg::In(tensor) => Ok(Given::Read(tensor.words(), tensor.nbytes())),
        Arg::Out(tensor) => {
            let bytes = tensor.nbytes();
            // A read-only tensor need not be copied.
            Ok(if is_written {
                Given::Write(tensor.words_mut(limits)?, bytes)
            } else {
                Given::Read(tensor.words(), bytes)
            })
        }
        Arg::Int(_) | Arg::Float(_) => Err(wrong(param, "a tensor", described(arg))),
    }
}
