//! Structural equality and hash of bodies and modules; the names of variables do not matter.

use crate::ir::make::import::canonical;
use crate::ir::storage::body_handle::Body;
use crate::ir::storage::sections::{Sections, bytes_of};
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::Xxh3;

impl Body {
    /// Returns true if both bodies are the same program, up to the names of variables and the order of the tables.
    pub fn structural_eq(&self, other: &Body) -> bool {
        if self.same(other) {
            return true;
        }
        let (a, b) = (known_hash(self), known_hash(other));
        if self.len() != other.len() || (a != 0 && b != 0 && a != b) {
            return false;
        }
        let (a, b) = (canonical(self.raw()), canonical(other.raw()));
        same_sections(&a, &b)
    }

    /// Returns a hash of the program without the names of variables; equal programs have equal hashes. Computed once per body.
    pub fn structural_hash(&self) -> u64 {
        let known = known_hash(self);
        if known != 0 {
            return known;
        }
        let hash = hash_sections(&canonical(self.raw())).max(1);
        if let Some(cached) = self.cached_hash() {
            cached.store(hash, Ordering::Relaxed);
        }
        hash
    }
}

/// Returns the cached hash, if this copy of the crate made the body and computed its hash; otherwise 0.
fn known_hash(body: &Body) -> u64 {
    body.cached_hash().map_or(0, |hash| hash.load(Ordering::Relaxed))
}

fn same_sections(a: &Sections, b: &Sections) -> bool {
    a.nodes == b.nodes
        && a.operands == b.operands
        && a.leaves == b.leaves
        && a.types == b.types
        && a.lists == b.lists
        && a.prims == b.prims
        && a.strs == b.strs
        && a.str_bytes == b.str_bytes
        && a.dicts == b.dicts
        && a.attrs == b.attrs
        && a.buffers == b.buffers
        && a.consts == b.consts
        && a.tensors.iter().zip(&b.tensors).all(|(x, y)| x.same_bytes(y))
}

fn hash_sections(s: &Sections) -> u64 {
    let mut h = Xxh3::new();
    let parts = [
        bytes_of(&s.nodes),
        bytes_of(&s.operands),
        bytes_of(&s.leaves),
        bytes_of(&s.types),
        bytes_of(&s.lists),
        bytes_of(&s.prims),
        bytes_of(&s.strs),
        &s.str_bytes,
        bytes_of(&s.dicts),
        bytes_of(&s.attrs),
        bytes_of(&s.buffers),
        bytes_of(&s.consts),
    ];
    for part in parts {
        h.update(&(part.len() as u64).to_le_bytes());
        h.update(part);
    }
    h.digest()
}
