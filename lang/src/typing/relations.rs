//! Relations between types, and the type of a call from the type of its callee.

use crate::arith::{prove_equal, substitute};
use crate::ir::erase::{erase_unbound, hide, symbols_of};
use crate::ir::{DType, Dim, Sym, TensorType, Type};
use crate::typing::operators::InferError;
use std::collections::BTreeMap;

/// The relation of an annotation to an inferred type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Both types are equal.
    Equal,
    /// Every value of the inferred type also belongs to the annotation, which is less precise.
    Wider,
    /// Undecided: symbolic dimensions that may be equal, or a more precise annotation.
    Unknown,
    /// No value can have both types, for the given reason.
    Contradicts(String),
}

impl Relation {
    fn and(self, other: Relation) -> Relation {
        use Relation::{Contradicts, Equal, Unknown, Wider};
        match (self, other) {
            (Contradicts(why), _) | (_, Contradicts(why)) => Contradicts(why),
            (Unknown, _) | (_, Unknown) => Unknown,
            (Wider, _) | (_, Wider) => Wider,
            (Equal, Equal) => Equal,
        }
    }
}

/// Returns the relation of `said` (an annotation) to `found` (an inferred type).
pub fn relation(said: &Type, found: &Type) -> Relation {
    match (said, found) {
        (Type::Unknown(_), _) | (_, Type::Unknown(_)) => Relation::Unknown,
        (Type::Object, Type::Object) => Relation::Equal,
        (Type::Object, _) => Relation::Wider,
        (_, Type::Object) => Relation::Unknown,
        (Type::Tensor(a), Type::Tensor(b)) => tensors(a, b),
        (Type::DTensor(a), Type::DTensor(b)) if a.mesh == b.mesh && a.placement == b.placement => {
            tensors(&a.tensor, &b.tensor)
        }
        (Type::DTensor(_), Type::DTensor(_)) => Relation::Contradicts("a different mesh or placement".into()),
        // An inferred tensor may have any distribution, and a distributed tensor is a tensor.
        (Type::DTensor(a), Type::Tensor(b)) => tensors(&a.tensor, b).and(Relation::Unknown),
        (Type::Tensor(a), Type::DTensor(b)) => tensors(a, &b.tensor).and(Relation::Wider),
        (Type::Prim { dtype: a, value: x }, Type::Prim { dtype: b, value: y }) => {
            if a != b {
                return Relation::Contradicts(format!("a scalar of {a} against a scalar of {b}"));
            }
            optional(x.as_ref(), y.as_ref(), |x, y| dims_relation(x, y, "value"))
        }
        (Type::Shape { ndim: a, dims: x }, Type::Shape { ndim: b, dims: y }) => {
            ndims(*a, *b, "a shape").and(optional(x.as_deref(), y.as_deref(), shapes))
        }
        (Type::Tuple(a), Type::Tuple(b)) => {
            if a.len() != b.len() {
                return Relation::Contradicts(format!(
                    "a tuple of {} elements against a tuple of {}",
                    a.len(),
                    b.len()
                ));
            }
            a.iter().zip(b).map(|(a, b)| relation(a, b)).fold(Relation::Equal, Relation::and)
        }
        (Type::Callable { params: a, ret: r, pure: p }, Type::Callable { params: b, ret: s, pure: q }) => {
            if *p && !*q {
                return Relation::Contradicts("a pure function against an impure one".into());
            }
            let same = if p == q { Relation::Equal } else { Relation::Wider };
            // Both types have their own symbolic variables, so only the number of parameters is compared.
            let params = optional(a.as_ref(), b.as_ref(), |a, b| match a.len() == b.len() {
                true => Relation::Equal,
                false => Relation::Contradicts(format!(
                    "a function with {} parameters against one with {}",
                    a.len(),
                    b.len()
                )),
            });
            same.and(params).and(match relation(&erase_unbound(r, &|_| true), &erase_unbound(s, &|_| true)) {
                Relation::Contradicts(why) => Relation::Contradicts(format!("the result: {why}")),
                other => other,
            })
        }
        (a, b) if a == b => Relation::Equal,
        (a, b) => Relation::Contradicts(format!("{} against {}", kind_name(a), kind_name(b))),
    }
}

fn kind_name(ty: &Type) -> &'static str {
    match ty {
        Type::Object => "any value",
        Type::Prim { .. } => "a scalar",
        Type::Shape { .. } => "a shape",
        Type::Tensor(_) => "a tensor",
        Type::DTensor(_) => "a tensor on a device mesh",
        Type::Tuple(_) => "a tuple",
        Type::Callable { .. } => "a function",
        Type::Buffer(_) => "a buffer",
        Type::Pointer { .. } => "a pointer",
        Type::Unknown(_) => "a type of unknown kind",
    }
}

fn optional<T: ?Sized>(said: Option<&T>, found: Option<&T>, both: impl Fn(&T, &T) -> Relation) -> Relation {
    match (said, found) {
        (None, None) => Relation::Equal,
        (None, Some(_)) => Relation::Wider,
        (Some(_), None) => Relation::Unknown,
        (Some(said), Some(found)) => both(said, found),
    }
}

fn ndims(said: i32, found: i32, what: &str) -> Relation {
    match (said, found) {
        (a, b) if a == b => Relation::Equal,
        (-1, _) => Relation::Wider,
        (_, -1) => Relation::Unknown,
        (a, b) => Relation::Contradicts(format!("{what} with {a} dimensions against one with {b}")),
    }
}

fn tensors(said: &TensorType, found: &TensorType) -> Relation {
    let dtype = match (said.dtype, found.dtype) {
        (a, b) if a == b => Relation::Equal,
        (DType::VOID, _) => Relation::Wider,
        (_, DType::VOID) => Relation::Unknown,
        (a, b) => Relation::Contradicts(format!("dtype {a} against {b}")),
    };
    let devices = optional(said.vdevice.as_ref(), found.vdevice.as_ref(), |a, b| match a == b {
        true => Relation::Equal,
        false => Relation::Contradicts("a different virtual device".into()),
    });
    let shape = optional(said.shape.as_deref(), found.shape.as_deref(), shapes);
    ndims(said.ndim, found.ndim, "a tensor").and(dtype).and(devices).and(shape)
}

fn shapes(said: &[Dim], found: &[Dim]) -> Relation {
    if said.len() != found.len() {
        return Relation::Contradicts(format!("{} dimensions against {}", said.len(), found.len()));
    }
    let each = said.iter().zip(found).enumerate();
    each.map(|(i, (a, b))| dims_relation(a, b, &format!("dimension {i}"))).fold(Relation::Equal, Relation::and)
}

fn dims_relation(said: &Dim, found: &Dim, what: &str) -> Relation {
    match prove_equal(said, found) {
        Some(true) => Relation::Equal,
        Some(false) => match (said.as_int(), found.as_int()) {
            (Some(a), Some(b)) => Relation::Contradicts(format!("{what} is {a} against {b}")),
            _ => Relation::Contradicts(format!("{what} differs")),
        },
        None => Relation::Unknown,
    }
}

/// Returns true if calls of a value of this type are known to have no effects, that is, if the type is a pure function type. Calls of an
/// external function, an opaque `R.Callable` or `R.Any` may have any effect.
///
/// Applies to all calls except operator calls, because operators declare their purity.
pub fn calls_are_pure(callee: &Type) -> bool {
    matches!(callee, Type::Callable { pure: true, .. })
}

/// Returns the type of a call of `callee` with arguments of the given types. Symbolic variables of the parameters are replaced by the
/// corresponding dimensions of the arguments.
///
/// # Errors
/// If the callee is not a function, or the arguments do not match.
pub fn call_result(callee: &Type, args: &[Type]) -> Result<Type, InferError> {
    let Type::Callable { params, ret, .. } = callee else {
        return match callee {
            Type::Object => Ok(Type::Object),
            other => Err(InferError::wrong(format!("calls {}, which is not a function", kind_name(other)))),
        };
    };
    let Some(params) = params else { return Ok((**ret).clone()) };
    if params.len() != args.len() {
        return Err(InferError::wrong(format!(
            "the function takes {} arguments, but is called with {}",
            params.len(),
            args.len()
        )));
    }
    let bound = bound_symbols(params, args);
    let with = |sym: Sym| bound.get(&sym).cloned();
    for (i, (param, arg)) in params.iter().zip(args).enumerate() {
        if let Relation::Contradicts(why) = relation(&substitute_type(param, &with), arg) {
            return Err(InferError::wrong(format!("argument {i} does not match its parameter: {why}")));
        }
    }
    let params_syms = symbols_of(params);
    let mut result = substitute_type(ret, &with);
    hide(&mut result, false, &|sym| {
        params_syms.contains(&sym) && !bound.contains_key(&sym)
            || !params_syms.contains(&sym) && !in_values(&bound, sym)
    });
    Ok(result)
}

/// Returns the values of the symbolic variables of parameters, given the types of the arguments. Variables that no argument determines are
/// omitted.
pub fn bound_symbols(params: &[Type], args: &[Type]) -> BTreeMap<Sym, Dim> {
    let mut bound = BTreeMap::new();
    for (param, arg) in params.iter().zip(args) {
        bind(param, arg, &mut bound);
    }
    bound
}

fn in_values(bound: &BTreeMap<Sym, Dim>, sym: Sym) -> bool {
    let mut found = false;
    bound.values().for_each(|dim| dim.vars(&mut |v| found |= v == sym));
    found
}

/// Binds variables that stand alone in a parameter to the dimension of the argument. As in TVM, scalars bind nothing.
fn bind(param: &Type, arg: &Type, bound: &mut BTreeMap<Sym, Dim>) {
    let mut pairs = |params: &[Dim], args: &[Dim]| {
        for (param, arg) in params.iter().zip(args) {
            if let Dim::Var(sym) = param {
                bound.entry(*sym).or_insert_with(|| arg.clone());
            }
        }
    };
    match (param, arg) {
        (Type::DTensor(a), Type::DTensor(b)) => {
            bind(&Type::Tensor(a.tensor.clone()), &Type::Tensor(b.tensor.clone()), bound);
        }
        (Type::Tensor(TensorType { shape: Some(a), .. }), Type::Tensor(TensorType { shape: Some(b), .. })) => {
            pairs(a, b);
        }
        (Type::Shape { dims: Some(a), .. }, Type::Shape { dims: Some(b), .. }) => pairs(a, b),
        (Type::Tuple(a), Type::Tuple(b)) => a.iter().zip(b).for_each(|(a, b)| bind(a, b, bound)),
        _ => {}
    }
}

/// Replaces variables in the dimensions of a type, except in types of functions. Changed dimensions are simplified.
pub fn substitute_type(ty: &Type, with: &impl Fn(Sym) -> Option<Dim>) -> Type {
    ty.map_dims(false, &|dim| substitute_dim(dim, with))
}

/// Replaces variables in a dimension; simplifies it if it changed.
pub fn substitute_dim(dim: &Dim, with: &impl Fn(Sym) -> Option<Dim>) -> Dim {
    match substitute(dim, with) {
        same if same == *dim => same,
        other => crate::arith::simplify(&other),
    }
}

/// Returns the common type of two types, which is the type of an If with branches of these types.
pub fn join(a: &Type, b: &Type) -> Type {
    match (relation(a, b), relation(b, a), a, b) {
        (Relation::Equal | Relation::Wider, ..) => a.clone(),
        (_, Relation::Wider, ..) => b.clone(),
        (_, _, Type::Prim { dtype: x, .. }, Type::Prim { dtype: y, .. }) if x == y => {
            Type::Prim { dtype: *x, value: None }
        }
        (_, _, Type::Tensor(x), Type::Tensor(y)) => {
            let ndim = if x.ndim == y.ndim { x.ndim } else { -1 };
            let dtype = if x.dtype == y.dtype { x.dtype } else { DType::VOID };
            Type::tensor_ndim(ndim, dtype)
        }
        (_, _, Type::Shape { ndim: x, .. }, Type::Shape { ndim: y, .. }) => {
            Type::Shape { ndim: if x == y { *x } else { -1 }, dims: None }
        }
        (_, _, Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => {
            Type::Tuple(x.iter().zip(y).map(|(a, b)| join(a, b)).collect())
        }
        _ => Type::Object,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::PrimOp;

    fn var(id: u32) -> Dim {
        Dim::Var(Sym { id, dtype: DType::I64 })
    }

    fn tensor(dims: &[Dim]) -> Type {
        Type::tensor(dims.to_vec(), DType::F32)
    }

    fn function(params: Vec<Type>, ret: Type, pure: bool) -> Type {
        Type::callable(Some(params), ret, pure)
    }

    #[test]
    fn annotations_may_say_less_but_not_otherwise() {
        let found = tensor(&[var(0), Dim::Int(4)]);
        let ndim = Type::tensor_ndim(2, DType::F32);
        let wider = [Type::Object, ndim.clone(), Type::tensor_ndim(-1, DType::F32), Type::tensor_ndim(-1, DType::VOID)];
        for said in &wider {
            assert_eq!(relation(said, &found), Relation::Wider, "{said:?}");
            assert_eq!(relation(&found, said), Relation::Unknown, "{said:?}");
            let (said, found) = (Type::tuple([said.clone()]), Type::tuple([found.clone()]));
            assert_eq!(relation(&said, &found), Relation::Wider);
        }
        assert_eq!(relation(&tensor(&[var(1), Dim::Int(4)]), &found), Relation::Unknown);
        let against = |said: &Type| matches!(relation(said, &found), Relation::Contradicts(_));
        assert!(against(&tensor(&[var(0), Dim::Int(5)])));
        assert!(against(&tensor(&[Dim::binary(PrimOp::Add, var(0), Dim::Int(1)), Dim::Int(4)])));
        assert!(against(&Type::tensor_ndim(3, DType::F32)));
        assert!(against(&Type::tensor_ndim(2, DType::F16)));
        assert!(against(&Type::tuple([])));
    }

    #[test]
    fn equal_dimensions_may_be_written_otherwise() {
        let twice = Dim::binary(PrimOp::Mul, Dim::Int(2), var(0));
        let sum = Dim::binary(PrimOp::Add, var(0), var(0));
        assert_eq!(relation(&tensor(&[twice]), &tensor(&[sum])), Relation::Equal);
    }

    #[test]
    fn effects_may_be_allowed_but_not_hidden() {
        let (pure, impure) = (function(vec![], Type::Object, true), function(vec![], Type::Object, false));
        assert_eq!(relation(&impure, &pure), Relation::Wider);
        assert!(matches!(relation(&pure, &impure), Relation::Contradicts(_)));
    }

    #[test]
    fn what_is_not_known_may_have_an_effect() {
        assert!(calls_are_pure(&function(vec![], Type::Object, true)));
        let opaque = |pure| Type::callable(None, Type::Object, pure);
        assert!(calls_are_pure(&opaque(true)));
        let may = [opaque(false), function(vec![], Type::Object, false), Type::Object, Type::Unknown(9)];
        assert!(may.iter().all(|ty| !calls_are_pure(ty)));
    }

    #[test]
    fn calls_replace_the_symbols_of_parameters() {
        let (n, m) = (var(0), var(1));
        let callee = function(
            vec![tensor(&[n.clone(), Dim::Int(3)]), Type::shape(vec![m.clone()])],
            tensor(&[Dim::binary(PrimOp::Mul, n.clone(), m)]),
            true,
        );
        let call = |args: &[Type]| call_result(&callee, args);
        let args = [tensor(&[Dim::Int(2), Dim::Int(3)]), Type::shape(vec![var(7)])];
        let Ok(Type::Tensor(result)) = call(&args) else { panic!("no tensor: {:?}", call(&args)) };
        let dims = result.shape.expect("known");
        assert_eq!(prove_equal(&dims[0], &Dim::binary(PrimOp::Mul, var(7), Dim::Int(2))), Some(true));

        // Nothing determines `n`, so only the number of dimensions remains.
        let vague = [Type::tensor_ndim(2, DType::F32), Type::shape(vec![Dim::Int(5)])];
        assert_eq!(call(&vague), Ok(Type::tensor_ndim(1, DType::F32)));
        assert!(call(&args[..1]).is_err());
        assert!(call(&[tensor(&[Dim::Int(2), Dim::Int(4)]), args[1].clone()]).is_err());
    }

    #[test]
    fn one_symbol_has_one_value() {
        let callee = function(vec![tensor(&[var(0), var(0)])], Type::Object, true);
        assert!(call_result(&callee, &[tensor(&[Dim::Int(2), Dim::Int(3)])]).is_err());
        assert!(call_result(&callee, &[tensor(&[var(4), var(4)])]).is_ok());
    }
}
