//! What conditions say of forms.

use super::{Affine, Binary, Instr, Reg};
use std::collections::HashMap;

/// Comparisons in one condition, at most.
const MOST: usize = 64;

/// The forms that are less than 0 where a condition holds, if it is made of a few such comparisons. `form` gives an integer
/// register as a form of others.
pub(super) fn less_than_zero(
    cond: Reg,
    defined: &HashMap<Reg, &Instr>,
    form: &impl Fn(Reg) -> Option<Affine>,
) -> Option<Vec<Affine>> {
    let (mut out, mut left) = (Vec::new(), vec![cond]);
    while let Some(cond) = left.pop() {
        match defined.get(&cond)? {
            Instr::Binary { op: Binary::And, a, b, .. } if left.len() < MOST => left.extend([*b, *a]),
            Instr::Binary { op: Binary::Lt, a, b, .. } if out.len() < MOST => out.push(form(*a)?.plus(&form(*b)?, -1)),
            _ => return None,
        }
    }
    Some(out)
}
