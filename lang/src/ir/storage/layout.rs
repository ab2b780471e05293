//! A hash of the positions of the fields of a record that crosses the plugin boundary.

use crate::ir::records::*;

/// A record that crosses the plugin boundary.
#[doc(hidden)]
pub trait Layout {
    /// Hash of size, alignment and the position of every field.
    const HASH: u64;
    /// Names and positions of all fields.
    const FIELDS: &'static [(&'static str, usize)];
    /// Size in bytes.
    const SIZE: usize;
}

#[doc(hidden)]
pub const fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

/// Implements [`Layout`]; omitting a field is a compile error.
#[doc(hidden)]
#[macro_export]
macro_rules! layout {
    ($Ty:ident { $($field:ident),* $(,)? }) => {
        $crate::layout!($Ty as $Ty { $($field),* });
    };
    ($Ty:ident as $full:ty { $($field:ident),* $(,)? }) => {
        impl $crate::ir::storage::layout::Layout for $full {
            const HASH: u64 = {
                let size = std::mem::size_of::<$full>() as u64;
                let hash = $crate::ir::storage::layout::mix(size, std::mem::align_of::<$full>() as u64);
                $(let hash = $crate::ir::storage::layout::mix(hash, std::mem::offset_of!($full, $field) as u64);)*
                hash
            };
            const FIELDS: &'static [(&'static str, usize)] = &[
                $((stringify!($field), std::mem::offset_of!($full, $field)),)*
            ];
            const SIZE: usize = std::mem::size_of::<$full>();
        }
        const _: fn(&$full) = |record| {
            let $Ty { $($field: _,)* } = record;
        };
    };
}
pub use crate::layout;

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
