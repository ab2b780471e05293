//! Data types by their names after `T.`.

use passhost_lang::ir::DType;

/// Returns the data type `T.name`, by its full name or by a short name of TVM, such as `f32`.
pub(crate) fn dtype_named(name: &str) -> Option<DType> {
    let short = DType::all().iter().find(|row| !name.is_empty() && row.short == name);
    short.map(|row| row.dtype).or_else(|| name.parse().ok())
}

/// Returns true if TVM has `T.name` for a data type. TVM does not have short names for integers of 4 bits or vectors of
/// 6 elements.
pub(crate) fn is_name_of_tvm(dtype: DType) -> bool {
    let has_vectors = !matches!(dtype.code(), 3 | 4 | 6);
    let is_known = dtype.code() == DType::HANDLE.code() || dtype.info().is_some();
    is_known && (dtype.lanes() == 1 || has_vectors && matches!(dtype.lanes(), 2 | 4 | 8 | 16 | 32 | 64))
}

/// The least or the greatest number of a data type, as defined by TVM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extreme {
    Int(i64),
    Float(f64),
}

/// Returns the greatest or the least number of a data type; `None` if TVM does not define one.
pub(crate) fn extreme(dtype: DType, greatest: bool) -> Option<Extreme> {
    if dtype.lanes() != 1 {
        return None;
    }
    let (code, bits) = (dtype.code(), u32::from(dtype.bits()));
    let float = match (code, bits) {
        (0, 1..=64) => {
            let half = 1i128 << (bits - 1);
            let value = if greatest { half - 1 } else { -half };
            return i64::try_from(value).ok().map(Extreme::Int);
        }
        // Unsigned integers wrap into the 64 bits of a record.
        (1, 1..=64) => return Some(Extreme::Int(if greatest { (u64::MAX >> (64 - bits)) as i64 } else { 0 })),
        _ => dtype.info()?.limit?,
    };
    Some(Extreme::Float(if greatest { float } else { -float }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_data_types() {
        assert_eq!((dtype_named("f16"), dtype_named("u64")), (Some(DType::F16), Some(DType::U64)));
        assert_eq!((dtype_named("boolean"), dtype_named("int32x4").map(DType::lanes)), (Some(DType::BOOL), Some(4)));
        assert_eq!((dtype_named("f128"), dtype_named("Buffer")), (None, None));
    }

    #[test]
    fn names_that_tvm_has() {
        let has = |names: &[&str]| names.iter().filter(|name| is_name_of_tvm(name.parse().expect("a name"))).count();
        let of_tvm =
            ["int32", "bool", "bfloat16", "handle", "float32x8", "uint8x64", "float6_e2m3fnx2", "float4_e2m1fn"];
        assert_eq!(has(&of_tvm), of_tvm.len());
        assert_eq!(has(&["int4", "uint1", "float32x6", "int32x128", "boolx4", "bfloat16x2", "int32xvscalex4"]), 0);
    }

    #[test]
    fn extremes_are_those_of_the_data_type() {
        let both = |dtype| (extreme(dtype, false), extreme(dtype, true));
        assert_eq!(both(DType::I8), (Some(Extreme::Int(-128)), Some(Extreme::Int(127))));
        assert_eq!(both(DType::I64), (Some(Extreme::Int(i64::MIN)), Some(Extreme::Int(i64::MAX))));
        assert_eq!(both(DType::U64), (Some(Extreme::Int(0)), Some(Extreme::Int(-1))), "the 64 bits of the record");
        assert_eq!(both(DType::F16), (Some(Extreme::Float(-65504.0)), Some(Extreme::Float(65504.0))));
        assert_eq!(both(DType::BOOL), (None, None));
    }
}
