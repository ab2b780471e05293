//! Rules of operators that are asked once for calls that differ in nothing that a rule sees. Small functions repeat the
//! calls of each other, and a rule costs more than all else that is checked of a call.

use plugin_api::ir::records::{NONE, tykind};
use plugin_api::ir::{Call, Expr, Ty, Value};
use plugin_api::metadata::OpInfo;
use plugin_api::typing::operators::{Infer, InferError, Inferred};
use script::Operators;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Rules, and what they said while this value lives.
pub(crate) struct KnownCalls<'r, R: ?Sized> {
    rules: &'r R,
    known: RefCell<HashMap<u64, Inferred>>,
    hasher: RandomState,
    /// With one function nothing is remembered: its check knows its own calls.
    several: bool,
}

impl<'r, R: ?Sized> KnownCalls<'r, R> {
    /// Rules for that many functions.
    pub(crate) fn new(rules: &'r R, functions: usize) -> KnownCalls<'r, R> {
        KnownCalls { rules, known: RefCell::default(), hasher: RandomState::new(), several: functions > 1 }
    }

    /// What a rule sees of a call: operator, arguments or their types, attributes, declared type. `None` if that is more
    /// than values say, as with constants and functions.
    fn key(&self, call: Call<'_>) -> Option<u64> {
        if !self.several {
            return None;
        }
        let mut h = self.hasher.build_hasher();
        let value = call.value();
        value.node().map(|node| node.flags).hash(&mut h);
        hash_type(value.ty(), &mut h);
        if !call.attrs().is_empty() {
            call.attrs().to_owned().hash(&mut h);
        }
        value.operands().try_for_each(|operand| hash_operand(operand, &mut h)).map(|()| h.finish())
    }
}

fn hash_operand(operand: Value<'_>, h: &mut impl Hasher) -> Option<()> {
    operand.leaf().map(|leaf| leaf.kind).hash(h);
    match operand.view() {
        Expr::Op(name) => name.hash(h),
        Expr::Shape => operand.dims()?.hash(h),
        Expr::TypeArg(ty) => hash_type(ty, h),
        // A rule can look into a tuple that has no name, and behind the name of a value whose type says nothing.
        Expr::Tuple(_) if !operand.is_bound() => return None,
        _ if operand.ty().kind() == tykind::OBJECT => return None,
        _ if operand.is_leaf() => return None,
        _ => hash_type(operand.ty(), h),
    }
    Some(())
}

/// Most types are tensors, of which no copy is needed.
fn hash_type(ty: Ty<'_>, h: &mut impl Hasher) {
    match ty.rec().filter(|rec| rec.aux == NONE && matches!(rec.kind, tykind::TENSOR | tykind::SHAPE)) {
        Some(rec) => {
            (rec.kind, rec.flags, rec.dtype, rec.ndim).hash(h);
            ty.dims().into_iter().flatten().for_each(|dim| dim.hash(h));
        }
        None => ty.to_owned().hash(h),
    }
}

impl<R: Infer + ?Sized> Infer for KnownCalls<'_, R> {
    fn infer(&self, call: Call<'_>) -> Result<Inferred, InferError> {
        let Some(key) = self.key(call) else { return self.rules.infer(call) };
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let inferred = self.rules.infer(call)?;
        self.known.borrow_mut().insert(key, inferred.clone());
        Ok(inferred)
    }
}

impl<R: Operators + ?Sized> Operators for KnownCalls<'_, R> {
    fn op_info(&self, name: &str) -> Option<&OpInfo> {
        self.rules.op_info(name)
    }

    fn near_ops(&self, name: &str) -> Vec<String> {
        self.rules.near_ops(name)
    }
}
