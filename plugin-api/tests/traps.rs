//! The traps of a flat body, one test each.

mod common;

use common::*;
use plugin_api::dump::dump;
use plugin_api::ir::records::{self, *};
use plugin_api::ir::{SealError, Sections};
use plugin_api::prelude::*;

fn seal(sections: &Sections) -> Result<Body, SealError> {
    Body::seal(sections)
}

#[test]
fn removing_a_used_value_names_it() {
    let body = chain();
    let mut edit = body.edit();
    edit.remove(named(&body, "lv"));
    let error = edit.finish().expect_err("lv1 uses it");
    assert!(matches!(&error, SealError::Removed { name, user, .. } if name == "lv" && user == "lv1"), "{error}");
    assert!(error.to_string().contains("`lv`"));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a value of one builder was given to another")]
fn values_of_two_builders_do_not_mix() {
    let (mut a, mut b) = (BodyBuilder::new(), BodyBuilder::new());
    a.begin_function(0, AttrsId::NONE, None);
    b.begin_function(0, AttrsId::NONE, None);
    let x = a.param("x", TypeId::NONE);
    b.tuple(&[x], None);
}

/// A body with a node, a leaf, a type and an attribute of kinds that nobody knows.
fn unknown_kinds() -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&tensor());
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(records::kind::BLOCK), &[], None);
    let leaf = b.string("payload");
    let attrs = b.attrs([("k", Attr::Int(7))]);
    let region = b.begin(NodeSpec::new(0x8002).flags(flag::OWNER | flag::IMPURE), &[x], Some("region"));
    let inner = b.node(NodeSpec::new(0x8001).ty(ty).attrs(attrs).a(5), &[x, leaf], Some("odd"));
    b.node(NodeSpec::new(0x8003), &[inner], None);
    b.end();
    let add = b.op("relax.add");
    let y = b.call(add, &[x, x], AttrsId::NONE, ty, false, Some("y"));
    let z = b.call(add, &[y, region], AttrsId::NONE, ty, false, Some("z"));
    b.end();
    b.end_function(z, ty);
    let mut s = Sections::copy_of(&b.raw());
    let at = s.leaves.iter().position(|leaf| leaf.kind == records::leaf::STR).expect("is there");
    s.leaves[at].kind = 0x8001;
    let types = s.types.len() as u32;
    let tensor = s.types[ty_number(&s)];
    s.types.push(TypeRec { kind: 0x8001, ..tensor });
    let odd = s.nodes.iter().position(|node| node.kind == 0x8001).expect("is there");
    s.nodes[odd].ty = types;
    seal(&s).expect("valid")
}

fn ty_number(s: &Sections) -> usize {
    s.types.iter().position(|ty| ty.kind == tykind::TENSOR).expect("is there")
}

#[test]
fn unknown_kinds_survive_a_rewrite() {
    let body = unknown_kinds();
    let new = body
        .rewrite(|value, rw| match value.as_call_to("relax.add") {
            Some(call) if value.name() == Some("y") => {
                let args = [rw.v(call.args().next().expect("two")); 2];
                Action::Replace(rw.call("relax.multiply", &args, &[], &tensor()))
            }
            _ => Action::Keep,
        })
        .expect("valid");
    assert!(!new.same(&body));
    let odd = named(&new, "odd");
    assert_eq!((odd.kind(), odd.ty().kind(), odd.node().expect("node").a), (0x8001, 0x8001, 5));
    assert_eq!(odd.attr("k").and_then(|attr| attr.as_int()), Some(7));
    let leaf = odd.operand(1).expect("leaf");
    assert!(matches!(leaf.view(), Expr::Unknown(0x8001)));
    assert_eq!(leaf.leaf().map(|leaf| leaf.flags), Some(val::STR));
    assert!(named(&new, "region").has(flag::IMPURE), "an effect of its own stays: {}", dump(&new));
    assert!(new.values().any(|value| value.kind() == 0x8003), "a statement without users stays");
    let cleaned = remove_all_unused(&new).expect("valid");
    assert!(cleaned.lookup_binding("odd").is_some() || cleaned.lookup_binding("region").is_some());
    assert_eq!(new.structural_hash(), seal(&Sections::copy_of(new.raw())).expect("valid").structural_hash());
}

fn if_that_prints(print: bool) -> Body {
    build(|b| {
        let (x, c) = (b.param("x", tensor()), b.param("c", cond()));
        b.emit(b.if_(
            c,
            |b| {
                if print {
                    b.emit(b.call("relax.print", &[x]));
                }
                b.emit(b.relu(x))
            },
            |b| b.emit(b.exp(x)),
        ));
        b.emit_func_output(x);
    })
}

#[test]
fn an_effect_marks_the_regions_around_it() {
    let body = if_that_prints(true);
    let header = body.values().find(|value| value.kind() == kind::IF).expect("an If");
    assert!(header.has_effect());
    assert!(!body.function().expect("function").is_pure());
    assert!(remove_all_unused(&body).expect("valid").values().any(|value| value.kind() == kind::IF));
    // Without the effect it goes, and with it the block that held nothing else.
    let pure = remove_all_unused(&if_that_prints(false)).expect("valid");
    assert_eq!(pure.len(), 4, "{}", dump(&pure));
}

#[test]
fn an_edit_marks_and_unmarks_regions() {
    let body = if_that_prints(false);
    let header = body.values().find(|value| value.kind() == kind::IF).expect("an If");
    assert!(!header.has_effect());
    let mut edit = body.edit();
    let inside = header.branches().expect("two").0.bindings().next().or_else(|| {
        let branch = header.region().children().next()?;
        branch.region().nodes().find(|value| value.is_binding())
    });
    let print = edit.builder().op("relax.print");
    let x = edit.v(named(&body, "x"));
    edit.before(inside.expect("a binding")).call(print, &[x], AttrsId::NONE, TypeId::NONE, true, Some("p"));
    let printing = edit.finish().expect("valid");
    let header = printing.values().find(|value| value.kind() == kind::IF).expect("an If");
    assert!(header.has_effect(), "{}", dump(&printing));
    let silent = printing.retain(|value| value.name() != Some("p")).expect("valid");
    assert!(!silent.values().find(|value| value.kind() == kind::IF).expect("an If").has_effect());
}

#[test]
fn equal_values_of_two_branches_are_not_merged() {
    let body = build(|b| {
        let (x, c) = (b.param("x", tensor()), b.param("c", cond()));
        let y = b.emit(b.if_(c, |b| b.emit(b.relu(x)), |b| b.emit(b.relu(x))));
        b.emit_func_output(b.relu(y));
    });
    // As an author writes it: scopes open and close with regions.
    let mut seen: ScopedMap<Vec<u32>, usize> = ScopedMap::new();
    let mut open: Vec<usize> = Vec::new();
    let mut repeated = 0;
    for value in body.values() {
        let at = value.index().expect("node");
        while open.pop_if(|end| *end <= at).is_some() {
            seen.leave();
        }
        if value.has(flag::REGION) && !matches!(value.kind(), kind::BLOCK) {
            open.push(value.end());
            seen.enter();
        }
        if value.as_call().is_some() {
            let key: Vec<u32> = value.operands().map(Value::word).collect();
            repeated += usize::from(seen.get(&key).is_some());
            seen.insert(key, at);
        }
    }
    assert_eq!(repeated, 0);
    // A replacement that does not dominate its use is refused.
    let calls: Vec<Value<'_>> = body.bindings().filter(|value| value.as_call_to("relax.nn.relu").is_some()).collect();
    let mut edit = body.edit();
    let first = edit.v(calls[0]);
    edit.replace(calls[1], first);
    assert!(matches!(edit.finish(), Err(SealError::Scope { .. })));
}

#[test]
fn symbolic_variables_are_of_the_body_and_cross_with_what_uses_them() {
    let bb = BlockBuilder::new(&Elementwise);
    bb.function("main", |b| {
        let n = b.sym("n");
        let x = b.param("x", Type::tensor([n.clone(), Dim::Int(4)], DType::F32));
        let inner = b.local_function("inner", |b| {
            let t = b.param("t", Type::tensor([n.clone()], DType::F32));
            b.emit_func_output(b.relu(t));
        });
        b.emit(inner);
        let y = b.emit(b.relu(x));
        b.emit_func_output(y);
    });
    let module = bb.get().expect("builds");
    let main = module.get("main").expect("is there");
    let Some(Dim::Var(sym)) = named(main, "x").ty().dims().and_then(|mut dims| dims.next()) else { panic!("symbolic") };
    assert_eq!(named(main, "t").ty().dims().and_then(|mut dims| dims.next()), Some(Dim::Var(sym)));
    assert_eq!(main.sym_name(sym.id), Some("n"));
    // At a call the caller's variables take the place of the callee's.
    let bb = BlockBuilder::over(&module, &Elementwise);
    bb.function("caller", |b| {
        let m = b.sym("m");
        let x = b.param("x", Type::tensor([m.clone(), Dim::Int(4)], DType::F32));
        let y = b.emit(b.call_global("main", &[x]));
        assert_eq!(b.type_of(y), Type::tensor([m, Dim::Int(4)], DType::F32));
        b.emit_func_output(y);
    });
    bb.get().expect("builds");
}

#[test]
fn a_nested_function_knows_what_it_captures() {
    let body = build(|b| {
        let (x, y) = (b.param("x", tensor()), b.param("y", tensor()));
        let f = b.local_function("f", |b| {
            let t = b.param("t", tensor());
            let unused = b.emit(b.exp(y));
            let _ = unused;
            b.emit_func_output(b.add(b.multiply(t, y), x));
        });
        let z = b.emit(b.call_value(f, &[x]));
        b.emit_func_output(z);
    });
    let f = named(&body, "f");
    let captured: Vec<_> = f.region().free_vars().into_iter().filter_map(Value::name).collect();
    assert_eq!(captured, ["y", "x"]);
    let cleaned = remove_all_unused(&body).expect("valid");
    assert_eq!(cleaned.n_bindings(), body.n_bindings() - 1, "inside of the nested function too: {}", dump(&cleaned));
    // Nobody calls it: it goes with all its content.
    let uncalled = build(|b| {
        let x = b.param("x", tensor());
        b.local_function("f", |b| {
            let t = b.param("t", tensor());
            b.emit_func_output(b.add(t, x));
        });
        b.emit_func_output(x);
    });
    assert_eq!(remove_all_unused(&uncalled).expect("valid").n_bindings(), 0);
}

#[test]
fn an_if_can_be_replaced_by_a_branch() {
    for flows in [false, true] {
        let body = build(|b| {
            let (x, c) = (b.param("x", tensor()), b.param("c", cond()));
            let before = b.emit(b.sqrt(x));
            let other = |b: &FunctionBuilder<'_, '_>| {
                if flows { b.dataflow(|b| b.emit_output(b.exp(b.relu(before)))) } else { b.emit(b.exp(before)) }
            };
            let y = b.emit(b.if_(c, |b| b.emit(b.relu(x)), other));
            b.emit_func_output(b.add(y, y));
        });
        let mut edit = body.edit();
        let header = body.values().find(|value| value.kind() == kind::IF).expect("an If");
        edit.inline_region(header, 1).expect("an If");
        let new = edit.finish().expect("valid");
        assert!(new.values().all(|value| !matches!(value.kind(), kind::IF | kind::BRANCH | kind::DATAFLOW)));
        let ops: Vec<_> = new.values().filter_map(Value::as_call).filter_map(Call::op).collect();
        let expected: &[&str] = if flows {
            &["relax.sqrt", "relax.nn.relu", "relax.exp", "relax.add"]
        } else {
            &["relax.sqrt", "relax.exp", "relax.add"]
        };
        assert_eq!(ops, expected, "{}", dump(&new));
        assert!(new.bindings().all(|value| !value.has(flag::INNER)));
    }
    let body = chain();
    assert!(body.edit().inline_region(named(&body, "lv"), 0).is_err());
}

#[test]
fn an_annotation_wider_than_its_value_stays() {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let (narrow, wide) = (b.ty(&tensor()), b.ty(&Type::tensor_ndim(2, DType::F32)));
    let x = b.param("x", narrow);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let (add, relu) = (b.op("relax.add"), b.op("relax.nn.relu"));
    let value = b.call(add, &[x, x], AttrsId::NONE, narrow, false, None);
    let y = b.node(NodeSpec::new(kind::ALIAS).ty(wide), &[value], Some("y"));
    let z = b.call(relu, &[y], AttrsId::NONE, wide, false, Some("z"));
    b.end();
    b.end_function(z, wide);
    let body = b.finish().expect("valid");
    let new = body
        .rewrite(|value, rw| match value.as_call_to("relax.add") {
            Some(call) => {
                let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
                Action::Replace(rw.call("relax.multiply", &args, &[], &tensor()))
            }
            None => Action::Keep,
        })
        .expect("valid");
    assert_eq!(named(&new, "y").ty().to_owned(), Type::tensor_ndim(2, DType::F32));
    let source = named(&new, "y").operand(0).expect("a value");
    assert!(source.as_call_to("relax.multiply").is_some() && source.ty().to_owned() == tensor() && source.is_nested());
}

#[test]
fn many_edits_cost_no_more_than_one_pass() {
    let n = 100_000;
    let body = long(n);
    let start = std::time::Instant::now();
    let mut edit = body.edit();
    let (relu, ty) = (edit.builder().op("relax.nn.relu"), edit.builder().ty(&tensor()));
    for value in body.bindings().step_by(5) {
        let v = edit.v(value);
        let new = edit.after(value).call(relu, &[v], AttrsId::NONE, ty, false, Some("new"));
        let _ = new;
    }
    let new = edit.finish().expect("valid");
    assert_eq!(new.n_bindings(), n + n / 5);
    // One compaction for each edit would take minutes.
    assert!(start.elapsed().as_secs() < 10);
}

fn long(n: usize) -> Body {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&tensor());
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let add = b.op("relax.add");
    let mut last = x;
    for _ in 0..n {
        last = b.call(add, &[last, x], AttrsId::NONE, ty, false, Some("v"));
    }
    b.end();
    b.end_function(last, ty);
    b.finish().expect("valid")
}

#[test]
fn a_nested_expression_has_exactly_one_user() {
    let build = |users: usize| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&tensor());
        let x = b.param("x", ty);
        b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        let add = b.op("relax.add");
        let nested = b.call(add, &[x, x], AttrsId::NONE, ty, false, None);
        let args = if users == 0 {
            [x, x]
        } else if users == 1 {
            [nested, x]
        } else {
            [nested, nested]
        };
        let y = b.call(add, &args, AttrsId::NONE, ty, false, Some("y"));
        b.end();
        b.end_function(y, ty);
        b.finish()
    };
    assert!(build(1).is_ok());
    assert!(build(0).is_err() && build(2).is_err());
}

#[test]
fn depth_is_limited_and_the_limit_is_safe() {
    let dims = |depth: usize| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let n = Dim::Var(b.sym("n", DType::I64));
        let dim = (0..depth).fold(n, |dim, _| Dim::binary(prim::ADD, dim, Dim::Int(1)));
        let ty = b.ty(&Type::tensor([dim], DType::F32));
        let x = b.param("x", ty);
        b.end_function(x, ty);
        b.finish()
    };
    let types = |depth: usize| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = (0..depth).fold(Type::Object, |ty, _| Type::Tuple(vec![ty]));
        let ty = b.ty(&ty);
        let x = b.param("x", ty);
        b.end_function(x, TypeId::NONE);
        b.finish()
    };
    let nested = |depth: usize| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&tensor());
        let mut v = b.param("x", ty);
        b.begin(NodeSpec::new(kind::BLOCK), &[], None);
        let relu = b.op("relax.nn.relu");
        for i in 0..=depth {
            v = b.call(relu, &[v], AttrsId::NONE, ty, false, (i == depth).then_some("y"));
        }
        b.end();
        b.end_function(v, ty);
        b.finish()
    };
    let regions = |depth: usize| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&tensor());
        let x = b.param("x", ty);
        for _ in 0..depth {
            b.begin(NodeSpec::new(0x8001), &[], None);
        }
        (0..depth).for_each(|_| b.end());
        b.end_function(x, ty);
        b.finish()
    };
    for make in [&dims as &dyn Fn(usize) -> Result<Body, SealError>, &types, &regions] {
        use_all(&make(900).expect("within the limit"));
        assert!(matches!(make(1_100), Err(SealError::TooDeep { most: 1_000, .. })));
    }
    use_all(&nested(900).expect("within the limit"));
    let error = nested(1_000_000).expect_err("one too many").to_string();
    assert!(error.contains("nested more than 1000000 deep"), "{error}");
}

/// Everything that reads a body.
fn use_all(body: &Body) {
    let _ = dump(body);
    let _ = body.structural_hash();
    assert!(body.structural_eq(&seal(&Sections::copy_of(body.raw())).expect("what was sealed can be sealed")));
    post_order_visit(body, |value| {
        let _ = (value.view(), value.ty().to_owned(), value.dims(), value.dim(), value.branches(), value.name());
        if let Some(call) = value.as_call() {
            let _ = (call.op(), call.args().len(), call.type_args().len());
        }
        let _ = plugin_api::index::index_to_dim(value);
    });
    let _ = (body.users().at(0), body.root().region().free_vars(), body.n_bindings());
    let _ = remove_all_unused(body);
    let mut edit = body.edit();
    let root = edit.v(body.root());
    edit.update(root, |node| node.flags ^= flag::PRIVATE);
    let _ = edit.finish();
    let _ = body.rewrite(|value, rw| match value.as_call() {
        Some(call) if value.index().is_some_and(|i| i % 3 == 0) => {
            let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
            Action::Replace(rw.call_like(call, &args))
        }
        _ => Action::Keep,
    });
}

#[test]
fn doubling_tables_cannot_explode() {
    // Each entry uses the one before it twice: small to store, 2^64 when written out.
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let n = Dim::Var(b.sym("n", DType::I64));
    let ty = b.ty(&Type::tensor([n], DType::F32));
    let x = b.param("x", ty);
    b.end_function(x, ty);
    let good = Sections::copy_of(&b.raw());
    let mut dims = good.clone();
    for _ in 0..64 {
        let last = dims.prims.len() as u32 - 1;
        dims.prims.push(PrimRec { op: prim::ADD, flags: 0, dtype: DType::I64.0, a: last, b: last });
    }
    let last = dims.prims.len() as u32 - 1;
    dims.lists.iter_mut().take(1).for_each(|item| *item = last);
    assert!(matches!(seal(&dims), Err(SealError::TooLarge { .. })));
    let mut types = good.clone();
    for _ in 0..64 {
        let (last, off) = (types.types.len() as u32 - 1, types.lists.len() as u32);
        types.lists.extend([last, last]);
        types.types.push(TypeRec {
            kind: tykind::TUPLE,
            flags: tyflag::TYPES,
            dtype: 0,
            ndim: 2,
            off,
            len: 2,
            aux: NONE,
        });
    }
    assert!(matches!(seal(&types), Err(SealError::TooLarge { .. })));
    let mut attrs = good;
    for _ in 0..64 {
        let entry = |val| AttrRec { key: NONE, kind: attr::LIST, flags: val::ATTR_LIST, reserved: 0, val };
        let off = (attrs.attrs.len() as u32).saturating_sub(2);
        let len = if attrs.attrs.is_empty() { 0 } else { 2 };
        attrs.attrs.extend([entry(list_val(off, len)); 2]);
    }
    assert!(matches!(seal(&attrs), Err(SealError::TooLarge { .. })));
}

#[test]
fn equality_is_up_to_names_and_the_order_of_tables() {
    let body = chain();
    let renamed = body.rewrite(|value, rw| {
        let v = rw.v(value);
        rw.edit().set_name(v, "other");
        Action::Keep
    });
    let renamed = renamed.expect("valid");
    assert!(!renamed.same(&body) && renamed.structural_eq(&body));
    assert_eq!(renamed.structural_hash(), body.structural_hash());
    // The same program over tables in another order, with entries that nothing uses.
    let mut b = BodyBuilder::new();
    b.op("relax.unused");
    b.ty(&Type::tensor_ndim(3, DType::F16));
    b.op("relax.multiply");
    let mut importer = b.importer(body.raw());
    importer.copy(&mut b, body.root());
    let other = b.finish().expect("valid");
    assert!(
        other.raw().leaves()[0].val != body.raw().leaves()[0].val
            || other.raw().leaves().len() != body.raw().leaves().len()
    );
    assert!(other.structural_eq(&body));
    assert_eq!(other.structural_hash(), body.structural_hash());
    // And different programs differ.
    let different = body.rewrite(|value, rw| match value.as_call_to("relax.nn.relu") {
        Some(call) => {
            let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
            Action::Replace(rw.call("relax.exp", &args, &[], &tensor()))
        }
        None => Action::Keep,
    });
    assert!(!different.expect("valid").structural_eq(&body));
}

#[test]
fn a_body_without_names_can_be_edited() {
    let mut sections = Sections::copy_of(chain().raw());
    sections.names.clear();
    let body = seal(&sections).expect("names are not needed");
    let new = body.rewrite(|value, rw| match value.as_call_to("relax.nn.relu") {
        Some(call) => {
            let args: Vec<V> = call.args().map(|arg| rw.v(arg)).collect();
            Action::Replace(rw.call("relax.exp", &args, &[], &tensor()))
        }
        None => Action::Keep,
    });
    let new = new.expect("valid");
    let named = new.bindings().filter(|value| value.name().is_some()).map(|value| value.as_call().and_then(Call::op));
    assert_eq!(named.collect::<Vec<_>>(), [Some("relax.exp")], "{}", dump(&new));
}

#[test]
fn a_dict_that_is_no_number_of_one_is_refused() {
    let body = build(|b| {
        let x = b.param("x", tensor());
        b.func_attrs(&[("k", Attr::Dict(vec![("a".into(), Attr::Int(1))]))]);
        b.emit_func_output(x);
    });
    let good = Sections::copy_of(body.raw());
    let at = good.attrs.iter().position(|rec| rec.kind == attr::DICT).expect("a dict");
    for val in [1 << 40, u64::MAX, u64::from(NONE) - 1] {
        let mut bad = good.clone();
        bad.attrs[at].val = val;
        assert!(matches!(seal(&bad), Err(SealError::Dangling { field: "dict", .. })), "{val:x}");
    }
    let mut none = good;
    none.attrs[at].val = u64::from(NONE);
    assert!(seal(&none).is_ok());
}

mod forged {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Sections> {
        let rich = build(|b| {
            let n = b.sym("n");
            let x = b.param("x", Type::tensor([n.clone(), Dim::Int(4)], DType::F32));
            let c = b.param("c", cond());
            b.func_attrs(&[(
                "k",
                Attr::Dict(vec![("a".into(), Attr::List(vec![Attr::Int(1), Attr::Type(tensor())]))]),
            )]);
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
                &Type::shape(vec![Dim::binary(prim::MUL, n, Dim::Int(2)), Dim::Int(4)]),
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

    /// One thing that the code of a pass can do to an edit.
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

    /// What a pass can ask of a value in the middle of an edit.
    fn look(value: Value<'_>) {
        let region = value.region();
        let parts = region.nodes().count() + region.children().count() + region.bindings().count();
        assert!(parts <= 3 * value.end());
        let _ = (value.has_effect(), value.branches().is_some(), region.result().is_some());
        assert!(!value_key(value, &|operand| operand).is_empty());
    }

    /// Fails where `f` does not come to its end.
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

    /// Nested expressions that are their own operands, in the middle of an edit.
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

    /// Regions that lie across each other are copied once.
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
}
