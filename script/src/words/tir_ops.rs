//! TIR operators written as calls: the table of intrinsics, and families without rows.

use passhost_lang::scalar::{DTypePlace, Intrinsic, ResultRule};

/// Operator families for one kind of device or system.
const FAMILIES: &[&str] =
    &["cuda.", "hexagon.", "metal.", "nvshmem.", "ptx.", "ptx_legacy.", "s_tir.", "tirx.", "webgpu."];

/// Returns the position of the data type and the result of the operator `T.name`; `None` if there is no such
/// operator.
pub(crate) fn find(name: &str) -> Option<(DTypePlace, ResultRule)> {
    if let Some(row) = row(name) {
        return Some((row.dtype, row.result));
    }
    let family = FAMILIES.iter().any(|family| name.len() > family.len() && name.starts_with(family));
    family.then_some((DTypePlace::No, ResultRule::Unknown))
}

/// Returns the row of an operator; a name after `T.` does not begin with `tirx.`.
fn row(name: &str) -> Option<&'static Intrinsic> {
    Intrinsic::find(name).filter(|row| row.name == name && is_written(row))
}

fn is_written(row: &Intrinsic) -> bool {
    row.result != ResultRule::Unwritten
}

/// Returns the name under which TVM prints an operator.
pub(crate) fn printed_name(name: &str) -> &str {
    match name {
        "tvm_call_packed" | "tvm_call_packed_lowered" | "tvm_call_cpacked" | "tvm_call_cpacked_lowered" => &name[4..],
        other => other,
    }
}

/// Returns the names outside the families.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let others = ["Select", "Cast", "Ramp", "Broadcast", "Shuffle", "Let", "min", "max", "truncmod"];
    Intrinsic::all().iter().filter(|row| is_written(row)).map(|row| row.name).chain(others)
}

/// Returns the position of the data type in the printed call of `tirx.name`.
pub(crate) fn dtype_place(name: &str) -> DTypePlace {
    find(name).map_or(DTypePlace::No, |(place, _)| place)
}
