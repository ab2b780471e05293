//! Pads the rows of allocated memory to whole vectors.
//!
//! For example, a tile of 8 rows of 13 elements becomes 8 rows of 16 elements. Rows then do not share vectors, so
//! LLVM can keep each row in a register.

use runtime::program::{Access, Affine, Buffer, Instr, Program, each_instr, each_instr_mut};
use std::collections::BTreeMap;

/// Elements of the longest vectors.
const ROW: i64 = 16;
/// Maximum size of padded memory, in elements.
const MOST: i64 = 4096;

/// Pads the rows of small storages used by only one buffer.
pub(crate) fn pad(program: &mut Program) {
    let padded = padded(program);
    if padded.is_empty() {
        return;
    }
    let sizes: BTreeMap<u32, i64> = padded.values().map(|padded| (padded.storage, padded.elements)).collect();
    each_instr_mut(&mut program.body, &mut |instr| match instr {
        Instr::Load { access, .. } | Instr::Store { access, .. } => {
            if let Some(padded) = padded.get(&access.buffer) {
                access.offset = offset(access, &padded.strides);
            }
        }
        Instr::Allocate { storage, factors, .. } => {
            if let Some(elements) = sizes.get(storage) {
                *factors = vec![(*elements).into()];
            }
        }
        _ => {}
    });
    for (buffer, padded) in padded {
        let buffer = &mut program.buffers[buffer as usize];
        buffer.strides = padded.strides.into_iter().map(Affine::from).collect();
        buffer.is_compact = false;
    }
}

/// A storage with padded rows.
struct Padded {
    storage: u32,
    /// The new strides of its buffer.
    strides: Vec<i64>,
    /// Its new size.
    elements: i64,
}

/// Returns the storages to pad, by the number of their only buffer.
fn padded(program: &Program) -> BTreeMap<u32, Padded> {
    let mut allocations = vec![0; program.storages.len()];
    each_instr(&program.body, &mut |instr| {
        if let Instr::Allocate { storage, .. } = instr {
            allocations[*storage as usize] += 1;
        }
    });
    let mut users = vec![0; program.storages.len()];
    program.buffers.iter().for_each(|buffer| users[buffer.storage as usize] += 1);
    let is_own = |buffer: &Buffer| allocations[buffer.storage as usize] == 1 && users[buffer.storage as usize] == 1;
    let own = (0..).zip(&program.buffers).filter(|(_, buffer)| is_own(buffer));
    own.filter_map(|(number, buffer)| Some((number, with_rows(buffer)?))).collect()
}

/// Returns the storage of a buffer with padded rows; `None` if its rows are not padded.
fn with_rows(buffer: &Buffer) -> Option<Padded> {
    let own = buffer.lanes == 1 && !buffer.is_flat && buffer.is_compact && buffer.offset.as_constant() == Some(0);
    let mut extents: Vec<i64> = buffer.shape.iter().map(Affine::as_constant).collect::<Option<_>>()?;
    let last = extents.last_mut().filter(|last| own && **last > 1 && **last % ROW != 0)?;
    *last = last.checked_add(ROW - *last % ROW)?;
    let mut strides = vec![1i64; extents.len()];
    for dim in (1..extents.len()).rev() {
        strides[dim - 1] = strides[dim].checked_mul(extents[dim])?;
    }
    let elements = strides[0].checked_mul(extents[0])?;
    let fits = extents.iter().all(|extent| *extent > 0) && elements <= MOST;
    fits.then_some(Padded { storage: buffer.storage, strides, elements })
}

fn offset(access: &Access, strides: &[i64]) -> Affine {
    access.index.iter().zip(strides).fold(Affine::from(0), |sum, (index, stride)| sum.plus(index, *stride))
}
