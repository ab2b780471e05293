//! Pads the rows of allocated memory to whole vectors.
//!
//! For example, a tile of 8 rows of 13 elements becomes 8 rows of 16 elements. Rows then do not share vectors, so
//! LLVM can keep each row in a register.

use runtime::program::{Access, Affine, Instr, Program, each_instr, each_instr_mut};

/// Elements of the longest vectors.
const ROW: i64 = 16;
/// Maximum size of padded memory, in elements.
const MOST: i64 = 4096;

/// Pads the rows of small storages used by only one buffer.
pub(crate) fn pad(program: &mut Program) {
    for storage in 0..program.storages.len() as u32 {
        if let Some((buffer, strides, elements)) = padded(program, storage) {
            each_instr_mut(&mut program.body, &mut |instr| match instr {
                Instr::Load { access, .. } | Instr::Store { access, .. } if access.buffer == buffer => {
                    access.offset = offset(access, &strides);
                }
                Instr::Allocate { storage: of, factors, .. } if *of == storage => *factors = vec![elements.into()],
                _ => {}
            });
            let buffer = &mut program.buffers[buffer as usize];
            buffer.strides = strides.into_iter().map(Affine::from).collect();
            buffer.is_compact = false;
        }
    }
}

/// Returns the buffer of a storage with its new strides and its new size in elements; `None` if the storage is not
/// padded.
fn padded(program: &Program, storage: u32) -> Option<(u32, Vec<i64>, i64)> {
    let mut allocations = 0;
    each_instr(&program.body, &mut |instr| {
        allocations += usize::from(matches!(instr, Instr::Allocate { storage: of, .. } if *of == storage));
    });
    let mut buffers = (0..).zip(&program.buffers).filter(|(_, buffer)| buffer.storage == storage);
    let (number, buffer) = buffers.next().filter(|_| buffers.next().is_none() && allocations == 1)?;
    let own = buffer.lanes == 1 && !buffer.is_flat && buffer.is_compact && buffer.offset.as_constant() == Some(0);
    let mut extents: Vec<i64> = buffer.shape.iter().map(Affine::as_constant).collect::<Option<_>>()?;
    let last = extents.last_mut().filter(|last| own && **last > 1 && **last % ROW != 0)?;
    *last = last.checked_add(ROW - *last % ROW)?;
    let mut strides = vec![1i64; extents.len()];
    for dim in (1..extents.len()).rev() {
        strides[dim - 1] = strides[dim].checked_mul(extents[dim])?;
    }
    let elements = strides[0].checked_mul(extents[0])?;
    (extents.iter().all(|extent| *extent > 0) && elements <= MOST).then_some((number, strides, elements))
}

fn offset(access: &Access, strides: &[i64]) -> Affine {
    access.index.iter().zip(strides).fold(Affine::from(0), |sum, (index, stride)| sum.plus(index, *stride))
}
