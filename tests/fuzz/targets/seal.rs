#![no_main]

use libfuzzer_sys::fuzz_target;
use plugin_api::dump::dump;
use plugin_api::ir::{Body, Sections};
use plugin_api::prelude::*;

/// Records of plain integers, as many as the bytes hold.
fn records<T: Copy>(bytes: &[u8]) -> Vec<T> {
    let n = bytes.len() / size_of::<T>();
    let mut out = Vec::<T>::with_capacity(n);
    // SAFETY: the records of a body consist of integers without padding, for which all bits are valid; there is room
    // for `n` of them.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.as_mut_ptr().cast::<u8>(), n * size_of::<T>());
        out.set_len(n);
    }
    out
}

/// The next section: its length in two bytes, then its bytes.
fn section<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let Some((len, after)) = rest.split_first_chunk::<2>() else { return &[] };
    let (bytes, after) = after.split_at(usize::from(u16::from_le_bytes(*len)).min(after.len()));
    *rest = after;
    bytes
}

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    let mut s = Sections::default();
    s.nodes = records(section(&mut rest));
    s.operands = records(section(&mut rest));
    s.leaves = records(section(&mut rest));
    s.types = records(section(&mut rest));
    s.lists = records(section(&mut rest));
    s.prims = records(section(&mut rest));
    s.strs = records(section(&mut rest));
    s.str_bytes = records(section(&mut rest));
    s.dicts = records(section(&mut rest));
    s.attrs = records(section(&mut rest));
    s.consts = records(section(&mut rest));
    s.buffers = records(section(&mut rest));
    s.names = records(section(&mut rest));
    s.name_bytes = records(section(&mut rest));
    s.var_names = records(section(&mut rest));
    s.spans = records(section(&mut rest));
    if let Ok(body) = Body::seal(&s) {
        use_all(&body);
    }
});

fn use_all(body: &Body) {
    let _ = dump(body);
    let _ = body.structural_hash();
    let again = Body::seal(&Sections::copy_of(body.raw())).expect("what was sealed can be sealed");
    assert!(body.structural_eq(&again));
    post_order_visit(body, |value| {
        let _ = (value.view(), value.ty().to_owned(), value.dims(), value.dim(), value.branches(), value.name());
    });
    let _ = (body.users().at(0), body.root().region().free_vars(), body.n_bindings());
    let _ = remove_all_unused(body);
    let _ = script::print_function("f", body, &script::NoOps);
}
