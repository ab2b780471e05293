//! Derives facts about forms from conditions.

use super::{Affine, Binary, Instr, Reg};
use std::collections::HashMap;

/// Maximum number of comparisons in one condition.
const MOST: usize = 64;

/// Returns the forms that are less than 0 if a condition holds, if it consists of a few such comparisons. `form`
/// expresses an integer register in terms of others.
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
            // Two integers are equal if neither is greater than the other.
            Instr::Binary { op: Binary::Eq, a, b, .. } if out.len() < MOST => {
                let difference = form(*a)?.plus(&form(*b)?, -1);
                out.push(Affine::from(-1).plus(&difference, -1));
                out.push(difference.plus(&Affine::from(-1), 1));
            }
            _ => return None,
        }
    }
    Some(out)
}
