//! Computes a hash of everything that an inference rule can see of a call. Calls with the same hash have the same result.

use passhost_lang::ir::records::{NONE, tykind};
use passhost_lang::ir::{Call, Expr, Ty, Value};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Hashes everything that a rule can see of a call: the operator, the arguments or their types, the attributes and the declared type.
/// Returns `None` if a rule can see more than this, as with constants and functions.
pub(crate) fn call_key(hasher: &RandomState, call: Call<'_>) -> Option<u64> {
    let mut h = hasher.build_hasher();
    let value = call.value();
    value.node().map(|node| node.flags).hash(&mut h);
    hash_type(value.ty(), &mut h);
    if !call.attrs().is_empty() {
        call.attrs().to_owned().hash(&mut h);
    }
    value.operands().try_for_each(|operand| hash_operand(operand, &mut h)).map(|()| h.finish())
}

fn hash_operand(operand: Value<'_>, h: &mut impl Hasher) -> Option<()> {
    operand.leaf().map(|leaf| leaf.kind).hash(h);
    match operand.view() {
        Expr::Op(name) => name.hash(h),
        Expr::Shape => operand.dims()?.hash(h),
        Expr::TypeArg(ty) => hash_type(ty, h),
        // A rule can look into an unbound tuple, and can follow a variable of type `Object` to its value.
        Expr::Tuple(_) if !operand.is_bound() => return None,
        _ if operand.ty().kind() == tykind::OBJECT => return None,
        _ if operand.is_leaf() => return None,
        _ => hash_type(operand.ty(), h),
    }
    Some(())
}

/// Hashes a type. Tensor types, which are the most common, are hashed without a copy.
fn hash_type(ty: Ty<'_>, h: &mut impl Hasher) {
    match ty.rec().filter(|rec| rec.aux == NONE && matches!(rec.kind, tykind::TENSOR | tykind::SHAPE)) {
        Some(rec) => {
            (rec.kind, rec.flags, rec.dtype, rec.ndim).hash(h);
            ty.dims().into_iter().flatten().for_each(|dim| dim.hash(h));
        }
        None => ty.to_owned().hash(h),
    }
}
