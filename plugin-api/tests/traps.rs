//! Tests the pitfalls of flat bodies, one test each.

mod common;

use common::*;
use plugin_api::ir::records::*;
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, SealError, Sections, TypeId};
use plugin_api::prelude::*;
use plugin_api::tvm::{BlockBuilder, FunctionBuilder};
use plugin_api::walk::dump::dump;
use plugin_api::walk::scoped_map::ScopedMap;

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
#[should_panic(expected = "the value belongs to another builder")]
fn values_of_two_builders_do_not_mix() {
    let (mut a, mut b) = (BodyBuilder::new(), BodyBuilder::new());
    a.begin_function(0, AttrsId::NONE, None);
    b.begin_function(0, AttrsId::NONE, None);
    let x = a.param("x", TypeId::NONE);
    b.tuple(&[x], None);
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
    // Without the effect, the If is removed, together with its block, which contains nothing else.
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
    // As in a pass: scopes open and close with regions.
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
    // A replacement that does not dominate its use is rejected.
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
    // At a call, the caller's variables replace the callee's.
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
    // The function is never called, so it is removed with all its content.
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
    // One compaction per edit would take minutes.
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
        let dim = (0..depth).fold(n, |dim, _| Dim::binary(plugin_api::scalar::PrimOp::Add, dim, Dim::Int(1)));
        let ty = b.ty(&Type::tensor([dim], DType::F32));
        let x = b.param("x", ty);
        b.end_function(x, ty);
        b.finish()
    };
    let types = |depth: usize| {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = (0..depth).fold(Type::Object, |ty, _| Type::tuple([ty]));
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

#[test]
fn doubling_tables_cannot_explode() {
    // Each entry uses the previous entry twice: they take little memory, but expand to 2^64 parts.
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
fn values_of_two_functions_do_not_mix() {
    let ctx = Ctx::detached();
    let uses: [fn(&FunctionBuilder<'_, '_>, V) -> V; 5] = [
        |b, v| b.emit(b.tuple(&[v])),
        |b, v| b.emit(v),
        |b, v| b.call_value(v, &[v]),
        |b, v| b.emit_wider(v, &Type::Object),
        |b, v| b.get(v, 0),
    ];
    for f in uses {
        let bb = BlockBuilder::new(&ctx);
        let mut other = None;
        bb.function("a", |b| {
            let x = b.param("x", tensor());
            let y = b.emit(b.tuple(&[x]));
            other = Some(y);
            b.emit_func_output(y);
        });
        bb.function("main", |b| {
            let x = b.param("x", tensor());
            f(b, other.expect("was set"));
            b.emit_func_output(x);
        });
        let error = bb.get().expect_err("a value of `a` in `main`").to_string();
        assert!(error.contains("the value belongs to a different function"), "{error}");
    }
}

#[test]
fn nested_tuples_are_refused_before_they_are_written_out() {
    let ctx = Ctx::detached();
    let nested = |n: usize, items: usize| {
        let bb = BlockBuilder::new(&ctx);
        bb.function("main", |b| {
            let x = b.param("x", Type::tensor([2], DType::F32));
            let t = (0..n).fold(x, |t, _| b.emit(b.tuple(&vec![t; items])));
            b.emit_func_output(t);
        });
        bb.get()
    };
    assert!(nested(12, 2).is_ok() && nested(900, 1).is_ok());
    let error = nested(60, 2).expect_err("2^60 parts").to_string();
    assert!(error.contains("more than 1048576 parts when it is written out"), "{error}");
    let error = nested(100_000, 1).expect_err("too deep").to_string();
    assert!(error.contains("nested more than 1000 deep"), "{error}");

    // The same without types, which normalize and infer_types infer.
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor([2], DType::F32));
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let mut t = x;
    for i in 0..60 {
        t = b.node(NodeSpec::new(kind::TUPLE), &[t, t], Some(&format!("t{i}")));
    }
    b.end();
    let any = b.ty(&Type::Object);
    b.end_function(t, any);
    let body = b.finish().expect("small");
    for error in [
        plugin_api::typing::normalize::normalize(&body, &ctx).err(),
        plugin_api::typing::infer_types::infer_types(&body, &ctx).err(),
    ] {
        let error = error.expect("2^60 parts").to_string();
        assert!(error.contains("parts when"), "{error}");
    }
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
    // The same program with tables in a different order and unused entries.
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
    // Different programs differ.
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
        b.func_attrs(&[("k", Attr::dict([("a", Attr::Int(1))]))]);
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
