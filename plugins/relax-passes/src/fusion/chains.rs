//! Dependencies between bindings along chains.

/// Chains of bindings, in which each binding is linked to the latest binding that it uses.
#[derive(Default)]
pub(super) struct Chains {
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    /// The latest binding that is used, or the binding itself at the start of a chain.
    before: usize,
    depth: usize,
    /// A binding further up the chain. Following these links reaches any ancestor in a logarithmic number of steps.
    jump: usize,
}

impl Chains {
    pub(super) fn add(&mut self, latest_used: Option<usize>) {
        let at = self.links.len();
        let Some(before) = latest_used else {
            return self.links.push(Link { before: at, depth: 0, jump: at });
        };
        let above = self.links[before];
        let further = self.links[above.jump];
        let even = above.depth - further.depth == further.depth - self.links[further.jump].depth;
        self.links.push(Link { before, depth: above.depth + 1, jump: if even { further.jump } else { before } });
    }

    /// Returns true if a chain leads from `binding` up to the earlier binding `part`.
    pub(super) fn is_made_of(&self, binding: usize, part: usize) -> bool {
        let mut at = binding;
        while at > part && self.links[at].depth > 0 {
            let link = self.links[at];
            at = if link.jump >= part { link.jump } else { link.before };
        }
        at == part
    }
}
