//! Tests that sealing rejects sections that no builder writes, and that all other sections are handled without a crash.

mod common;

use common::*;
use plugin_api::ir::records::*;
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, Sections};
use plugin_api::prelude::*;
use plugin_api::walk::value_key::value_key;
use proptest::prelude::*;

fn samples() -> Vec<Sections> {
    let rich = build(|b| {
        let n = b.sym("n");
        let x = b.param("x", Type::tensor([n.clone(), Dim::Int(4)], DType::F32));
        let c = b.param("c", cond());
        b.func_attrs(&[("k", Attr::dict([("a", Attr::list([Attr::Int(1), Attr::Type(tensor())]))]))]);
        let out = b.dataflow(|b| {
            let t = b.emit(b.tuple(&[b.relu(x), x]));
            b.emit_output(b.add(b.get(t, 0), b.call("relax.concat", &[b.tuple(&[x, x])])))
        });
        let f = b.local_function("f", |b| {
            let t = b.param("t", Type::tensor([n.clone(), Dim::Int(4)], DType::F32));
            b.emit_func_output(b.add(t, out));
        });
        let y = b.emit(b.if_(c, |b| b.emit(b.call_value(f, &[x])), |b| b.emit(b.exp(out))));
        b.match_cast(
            b.call("relax.shape_of", &[y]),
            &Type::shape(vec![Dim::binary(plugin_api::scalar::PrimOp::Mul, n, Dim::Int(2)), Dim::Int(4)]),
        );
        b.emit(b.call("relax.print", &[b.string("text")]));
        b.emit_func_output(b.tuple(&[y, out]));
    });
    [rich, unknown_kinds(), chain()].iter().map(|body| Sections::copy_of(body.raw())).collect()
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..40, Just(NONE), Just(1 << 31), (0u32..8).prop_map(|i| i | 1 << 31), any::<u32>()]
}

/// Writes `value` into one field of one record.
fn forge(s: &mut Sections, section: usize, at: usize, field: usize, value: u32) {
    macro_rules! into {
        ($table:ident: $($name:ident),*) => {{
            let len = s.$table.len().max(1);
            if let Some(rec) = s.$table.get_mut(at % len) {
                let mut i = 0;
                let n = [$(stringify!($name)),*].len();
                $(if i == field % n { rec.$name = value as _; } i += 1;)*
                let _ = i;
            }
        }};
    }
    macro_rules! plain {
        ($table:ident) => {{
            let len = s.$table.len().max(1);
            if let Some(item) = s.$table.get_mut(at % len) {
                *item = value as _;
            }
        }};
    }
    match section % 16 {
        0 | 14 | 15 => into!(nodes: kind, flags, ty, ops, n_ops, attrs, a),
        1 => plain!(operands),
        2 => {
            into!(leaves: kind, flags, ty, val);
            if let Some(leaf) = s.leaves.get_mut(at).filter(|_| field % 7 == 6) {
                leaf.val = list_val(value, at as u32);
            }
        }
        3 => into!(types: kind, flags, dtype, ndim, off, len, aux),
        4 => plain!(lists),
        5 => into!(prims: op, flags, dtype, a, b),
        6 => into!(strs: off, len),
        7 => plain!(str_bytes),
        8 => into!(dicts: off, len),
        9 => {
            into!(attrs: key, kind, flags, val);
            if let Some(attr) = s.attrs.get_mut(at).filter(|_| field % 7 == 6) {
                attr.val = list_val(value, at as u32);
            }
        }
        10 => plain!(names),
        11 => plain!(name_bytes),
        12 => plain!(var_names),
        13 => match field % 4 {
            0 => drop(s.nodes.pop()),
            1 => drop(s.operands.pop()),
            2 => drop(s.lists.pop()),
            _ => drop(s.strs.pop()),
        },
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_records_are_refused_or_can_be_used(
        which in 0usize..3,
        forgeries in proptest::collection::vec((0usize..16, 0usize..64, 0usize..8, small()), 1..6),
    ) {
        static SAMPLES: std::sync::OnceLock<Vec<Sections>> = std::sync::OnceLock::new();
        let mut s = SAMPLES.get_or_init(samples)[which].clone();
        for (section, at, field, value) in forgeries {
            forge(&mut s, section, at, field, value);
        }
        match seal(&s) {
            Ok(body) => use_all(&body),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// Applies one of the operations of passes to an edit.
fn change<'b>(edit: &mut Edit<'b>, body: &'b Body, what: usize, at: usize, field: usize, value: u32) {
    let nth = |at: usize| body.values().nth(at % body.len()).expect("a node");
    let (node, other) = (nth(at), nth(value as usize));
    let (v, with) = (edit.v(node), edit.v(other));
    match what {
        0..=4 => edit.update(v, |rec| match field {
            0 => rec.kind = value as u16,
            1 => rec.flags = value as u16,
            2 => rec.ty = value,
            3 => rec.ops = value,
            4 => rec.n_ops = value,
            5 => rec.attrs = value,
            _ => rec.a = value,
        }),
        5..=6 => edit.update(v, |rec| (rec.flags, rec.a) = (rec.flags | flag::REGION, value)),
        7 => edit.set_operand(v, field, with),
        8 => edit.set_operands(v, &vec![with; field]),
        9 => edit.forward_to(node, with),
        10 => match field % 3 {
            0 => edit.remove(node),
            1 => edit.discard(node),
            _ => edit.dissolve(node),
        },
        11 => {
            let spec = NodeSpec::new(value as u16).flags((value >> 16) as u16).a(value);
            edit.at_start(node).node(spec, &[with], Some("new"));
        }
        12 => {
            edit.before(node).open(NodeSpec::new(field as u16), &[], None);
        }
        _ => edit.after(node).close(),
    }
}

/// Calls the methods of a value in the middle of an edit.
fn look(value: Value<'_>) {
    let region = value.region();
    let parts = region.nodes().count() + region.children().count() + region.bindings().count();
    assert!(parts <= 3 * value.end());
    let _ = (value.has_effect(), value.branches().is_some(), region.result().is_some());
    assert!(!value_key(value, &|operand| operand).is_empty());
}

/// Fails if `f` does not terminate.
fn in_time<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, end) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || drop(done.send(f())));
    match end.recv_timeout(std::time::Duration::from_secs(60)) {
        Ok(result) => result,
        Err(why) => panic!("{why}: {:?}", thread.is_finished().then(|| thread.join())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_edit_ends(
        which in 0usize..3,
        changes in proptest::collection::vec((0usize..14, 0usize..64, 0usize..7, small()), 1..6),
    ) {
        static SAMPLES: std::sync::OnceLock<Vec<Body>> = std::sync::OnceLock::new();
        let bodies = SAMPLES.get_or_init(|| samples().iter().map(|s| seal(s).expect("valid")).collect());
        let body = bodies[which].clone();
        let refused = in_time(move || {
            let mut edit = body.edit();
            changes.into_iter().for_each(|(what, at, field, value)| change(&mut edit, &body, what, at, field, value));
            body.values().for_each(|value| edit.with(edit.v(value), look));
            edit.finish().inspect(use_all).err()
        });
        prop_assert!(refused.is_none_or(|error| !error.to_string().is_empty()));
    }
}

#[test]
fn a_region_without_end_ends() {
    let body = chain();
    for (at, value) in body.values().enumerate() {
        for a in [u32::MAX, u32::MAX - 1, u32::MAX - at as u32 - 1, 1 << 31] {
            let copy = body.clone();
            let refused = in_time(move || {
                let mut edit = copy.edit();
                let v = edit.v(copy.values().nth(at).expect("a node"));
                edit.update(v, |rec| (rec.flags, rec.a) = (rec.flags | flag::REGION, a));
                edit.with(v, look);
                edit.finish().is_err()
            });
            assert!(refused || value.has(flag::REGION), "{at} {a:x}");
        }
    }
}

/// During an edit, nested expressions are their own operands.
#[test]
fn cycles_of_nested_expressions_end() {
    in_time(|| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&tensor());
        let (x, add) = (b.param("x", ty), b.op("relax.add"));
        b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        let [first, second] = [(); 2].map(|()| b.call(add, &[x, x], AttrsId::NONE, ty, false, None));
        let third = b.call(add, &[first, second], AttrsId::NONE, ty, false, None);
        let y = b.call(add, &[third, x], AttrsId::NONE, ty, false, Some("y"));
        b.end();
        b.end_function(y, ty);
        let body = b.finish().expect("valid");
        let mut edit = body.edit();
        let nested: Vec<V> = body.values().filter(|value| value.is_nested()).map(|value| edit.v(value)).collect();
        assert!(nested.len() > 2);
        for (i, v) in nested.iter().enumerate() {
            edit.set_operands(*v, &[nested[(i + 1) % nested.len()], nested[(i + 2) % nested.len()]]);
        }
        nested.iter().for_each(|v| edit.with(*v, look));
        assert!(edit.finish().is_err());
    });
}

/// Overlapping regions are copied once.
#[test]
fn regions_across_each_other_are_copied_in_linear_time() {
    in_time(|| {
        let body = build(|b| {
            let x = b.param("x", tensor());
            for _ in 0..100 {
                b.emit(b.relu(x));
            }
            b.emit_func_output(x);
        });
        let mut edit = body.edit();
        for (i, value) in body.values().enumerate().skip(1) {
            let v = edit.v(value);
            edit.update(v, |rec| {
                rec.flags |= flag::REGION;
                (rec.a, rec.n_ops) = (if i % 2 == 0 { 3 } else { 1 }, 0);
            });
        }
        let root = edit.v(body.root());
        let (mut copy, from) = (BodyBuilder::new(), &*edit.builder());
        let raw = from.raw();
        let mut importer = copy.importer(&raw);
        assert!(from.with(root, |root| importer.copy(&mut copy, root)).is_some());
        assert_eq!(copy.raw().nodes().len(), body.len());
    });
}
