//! Replaces the data types of a function.

use crate::ir::constant::Constant;
use crate::ir::records::{NONE, StrRec, attr, leaf, val};
use crate::ir::storage::sections::Sections;
use crate::ir::{Body, DType, SealError, Tensor, Value};

impl Body {
    /// Replaces each data type in types, buffers, expressions and attributes, and converts constants. Does not infer types again.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::tir::prim_func;
    ///
    /// let double = prim_func(|t| {
    ///     let (a, b) = (t.buffer_param("A", &[3], DType::F32), t.buffer_param("B", &[3], DType::F32));
    ///     t.serial("i", 3, |i| t.store(b, [i], t.load(a, [i]) * 2.0));
    /// })?;
    /// let wide = double.with_dtypes(&|dtype| if dtype == DType::F32 { DType::F64 } else { dtype })?;
    /// let buffers = wide.root().param_buffers();
    /// assert!(buffers.iter().all(|buffer| matches!(buffer.ty().to_owned(), Type::Buffer(ty) if ty.dtype == DType::F64)));
    /// # Ok::<(), PassError>(())
    /// ```
    ///
    /// # Errors
    /// If the data of a constant cannot be converted, or the function is not valid with the new data types.
    pub fn with_dtypes(&self, to: &dyn Fn(DType) -> DType) -> Result<Body, SealError> {
        let mut s = Sections::copy_of(self.raw());
        let to = |dtype: u32| to(DType(dtype)).0;
        constants(self, &mut s, &to)?;
        s.types.iter_mut().filter(|ty| ty.dtype != 0).for_each(|ty| ty.dtype = to(ty.dtype));
        s.prims.iter_mut().for_each(|prim| prim.dtype = to(prim.dtype));
        s.buffers.iter_mut().for_each(|buffer| buffer.dtype = to(buffer.dtype));
        for rec in s.leaves.iter_mut().filter(|rec| rec.kind == leaf::DTYPE) {
            rec.val = u64::from(to(rec.val as u32));
        }
        // Some attributes contain the name of a data type.
        let mut names = Vec::new();
        for rec in s.attrs.iter_mut() {
            match rec.kind {
                attr::DTYPE => rec.val = u64::from(to(rec.val as u32)),
                attr::STR if rec.flags == val::STR => names.push(rec.val as u32),
                _ => {}
            }
        }
        let renamed = strings(&mut s, &names, &to);
        for rec in s.attrs.iter_mut().filter(|rec| rec.kind == attr::STR && rec.flags == val::STR) {
            if let Some((_, new)) = renamed.iter().find(|(old, _)| u64::from(*old) == rec.val) {
                rec.val = u64::from(*new);
            }
        }
        Body::seal(&s)
    }
}

/// Converts the data of constants; their types are replaced together with all other types.
fn constants(body: &Body, s: &mut Sections, to: &dyn Fn(u32) -> u32) -> Result<(), SealError> {
    for leaf in 0..s.leaves.len() as u32 {
        let value = Value::leaf_of(body, leaf);
        let (Some(constant), Some(rec)) = (value.as_constant(), value.leaf()) else { continue };
        let at = rec.val as u32 as usize;
        let (Some(known), Some(tensor)) = (s.consts.get_mut(at), s.tensors.get_mut(at)) else { continue };
        let dtype = to(known.dtype);
        if dtype == known.dtype {
            continue;
        }
        *tensor = converted(&constant, DType(dtype)).ok_or(SealError::Malformed {
            what: "constant",
            index: at,
            why: "of a data type that is not converted",
        })?;
        (known.hash_lo, known.hash_hi) = tensor.hash128();
        (known.dtype, known.bytes) = (dtype, tensor.bytes().len() as u64);
    }
    Ok(())
}

fn converted(constant: &Constant<'_>, dtype: DType) -> Option<Tensor> {
    let array = constant.to_array().cast(dtype).ok()?;
    Some(Tensor::new(array.view().bytes()))
}

/// Adds the replacements of the strings in `ids` that name a replaced data type; returns pairs of old and new ids.
fn strings(s: &mut Sections, ids: &[u32], to: &dyn Fn(u32) -> u32) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for id in ids.iter().filter(|id| **id != NONE) {
        let Some(rec) = s.strs.get(*id as usize) else { continue };
        let bytes = s.str_bytes.get(rec.off as usize..(rec.off + rec.len) as usize).unwrap_or_default();
        let Some(dtype) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<DType>().ok()) else { continue };
        let new = to(dtype.0);
        if new == dtype.0 || out.iter().any(|(old, _)| old == id) {
            continue;
        }
        let text = DType(new).to_string();
        let (off, len) = (s.str_bytes.len() as u32, text.len() as u32);
        s.str_bytes.extend_from_slice(text.as_bytes());
        s.strs.push(StrRec { off, len });
        out.push((*id, s.strs.len() as u32 - 1));
    }
    out
}
