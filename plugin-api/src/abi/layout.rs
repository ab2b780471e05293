//! What both sides must agree on: a hash over the records that cross, for the metadata; and abi_stable's comparison of
//! all fields, when a plugin is opened. The hash is quick and works without loading, the comparison finds the culprit.

use super::entry::{Entry, RunResult};
use super::module::{FuncEntry, ModuleHdr};
use super::services::{CtxRecord, DiagnosticRecord, LogRecord, RawBytes, Services, Sink};
use super::view::{BodyHdr, RawSlice, RawView, TensorHdr};
use crate::ir::records::*;
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{AbiInstability, AbiInstabilityErrors, check_layout_compatibility};
use abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};

/// A record that crosses.
pub(crate) trait Layout {
    /// Hash over size, alignment and the place of every field.
    const HASH: u64;
}

pub(crate) const fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

/// Implements [`Layout`]; to leave out a field is a compile error. Records that may grow at their end (`open`) are
/// hashed without their size, and fields of later API versions stand behind `;`, so that older plugins still fit.
macro_rules! layout {
    (open $Ty:ident { $($field:ident),* $(; $($later:ident),*)? $(,)? }) => {
        layout!(@ $Ty ($Ty) 0 { $($field),* } { $($($later),*)? });
    };
    ($Ty:ident as $full:ty { $($field:ident),* $(,)? }) => {
        layout!(@ $Ty ($full) std::mem::size_of::<$full>() as u64; { $($field),* } {});
    };
    ($Ty:ident { $($field:ident),* $(,)? }) => {
        layout!(@ $Ty ($Ty) std::mem::size_of::<$Ty>() as u64; { $($field),* } {});
    };
    (@ $Ty:ident ($full:ty) 0 { $($field:ident),* } { $($later:ident),* }) => {
        layout!(@ $Ty ($full) 0; { $($field),* } { $($later),* });
    };
    (@ $Ty:ident ($full:ty) $size:expr; { $($field:ident),* } { $($later:ident),* }) => {
        impl $crate::abi::layout::Layout for $full {
            const HASH: u64 = {
                let hash = $crate::abi::layout::mix($size, std::mem::align_of::<$full>() as u64);
                $(let hash = $crate::abi::layout::mix(hash, std::mem::offset_of!($full, $field) as u64);)*
                hash
            };
        }
        const _: fn(&$full) = |record| {
            let $Ty { $($field: _,)* $($later: _,)* } = record;
        };
    };
}
pub(crate) use layout;

layout!(NodeRec { kind, flags, ty, ops, n_ops, attrs, a });
layout!(LeafRec { kind, flags, ty, val });
layout!(TypeRec { kind, flags, dtype, ndim, off, len, aux });
layout!(PrimRec { op, flags, dtype, a, b });
layout!(DictRec { off, len });
layout!(AttrRec { key, kind, flags, reserved, val });
layout!(StrRec { off, len });
layout!(ConstRec { hash_lo, hash_hi, bytes, dtype, ty });
layout!(BufferRec {
    dtype,
    scope,
    shape_off,
    shape_len,
    strides_off,
    strides_len,
    elem_offset,
    align,
    offset_factor,
    reserved
});

macro_rules! boundary {
    ($($field:ident: $ty:ty),* $(,)?) => {
        /// Every record that crosses, for the comparison.
        #[repr(C)]
        #[derive(StableAbi)]
        pub(crate) struct Boundary {
            $($field: $ty,)*
        }

        /// Hash over all of them. Equal on both sides, or the plugin is not opened.
        pub const FINGERPRINT: u64 = {
            let hash = mix(0xcbf2_9ce4_8422_2325, std::mem::size_of::<TypeLayout>() as u64);
            $(let hash = mix(hash, <$ty as Layout>::HASH);)*
            hash
        };
    };
}

boundary! {
    node: NodeRec,
    leaf: LeafRec,
    ty: TypeRec,
    prim: PrimRec,
    dict: DictRec,
    attr: AttrRec,
    str: StrRec,
    constant: ConstRec,
    buffer: BufferRec,
    slice: RawSlice,
    view: RawView<'static>,
    body: BodyHdr,
    tensor: TensorHdr,
    function: FuncEntry,
    module: ModuleHdr,
    bytes: RawBytes,
    sink: Sink,
    ctx: CtxRecord,
    log: LogRecord,
    diagnostic: DiagnosticRecord,
    services: Services,
    result: RunResult,
    entry: Entry,
}

/// Layouts of this side.
pub(crate) extern "C" fn layout_here() -> *const u8 {
    std::ptr::from_ref::<TypeLayout>(<Boundary as StableAbi>::LAYOUT).cast()
}

/// Compares the layouts of a plugin with those of this side. The error is one line; the whole report, thousands of
/// lines, goes to the log at debug level.
pub(crate) fn compare_layouts(theirs: &'static TypeLayout) -> Result<(), String> {
    compare(<Boundary as StableAbi>::LAYOUT, theirs)
}

fn compare(ours: &'static TypeLayout, theirs: &'static TypeLayout) -> Result<(), String> {
    let Err(errors) = check_layout_compatibility(ours, theirs) else { return Ok(()) };
    match first_difference(&errors) {
        None => Ok(()),
        Some(line) => {
            tracing::debug!("layouts differ:\n{errors}");
            Err(line)
        }
    }
}

/// The type and what differs. The release version of this crate does not count: the API has a version of its own.
fn first_difference(errors: &AbiInstabilityErrors) -> Option<String> {
    errors.errors.iter().find_map(|site| {
        let error = site.errs.iter().find(|error| !matches!(error, AbiInstability::PackageVersion(_)))?;
        let place = site.stack_trace.last().map(|at| match at.expected {
            TLFieldOrFunction::Field(field) => format!("`{}` ({})", field.layout().full_type(), field.name()),
            TLFieldOrFunction::Function(function) => format!("function `{}`", function.name),
        });
        let place = place.unwrap_or_else(|| "the list of records".to_string());
        Some(format!("{place} {}", describe(error)))
    })
}

fn describe(error: &AbiInstability) -> String {
    match error {
        AbiInstability::Size(at) => format!("has {} bytes there, {} here", at.found, at.expected),
        AbiInstability::Alignment(at) => format!("is aligned to {} there, {} here", at.found, at.expected),
        AbiInstability::FieldCountMismatch(at) => format!("has {} fields there, {} here", at.found, at.expected),
        AbiInstability::UnexpectedField(at) => {
            format!("has field `{}` there where `{}` is here", at.found.name(), at.expected.name())
        }
        AbiInstability::Name(at) => format!("is `{}` there, `{}` here", at.found, at.expected),
        AbiInstability::MismatchedPrimitive(at) => format!("is {:?} there, {:?} here", at.found, at.expected),
        other => {
            let text = format!("{other:?}").replace('\n', " ");
            format!("differs: {}", text.split_whitespace().take(12).collect::<Vec<_>>().join(" "))
        }
    }
}
