//! Tests that the result of a pass must equal its parsed text: any other result is refused, with the name of the pass.
#![forbid(unsafe_code)]

use passhost::verify::is_plain_prim_func;
use passhost::{Engine, Error, Manifest, Pass, PassContext, RunReport, Runner, create_module_pass};
use passhost_tests::{fuzz, root};
use plugin_api::declare::diagnostics::Severity;
use plugin_api::ir::records::{flag, kind, tykind};
use plugin_api::ir::{AttrsId, BodyBuilder, NodeSpec, Sections};
use plugin_api::metadata::PassInfo;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;
use plugin_api::tvm::BlockBuilder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const MODULE: &str = r#"@I.ir_module
class Module:
    I.module_attrs({"kept": 1})
    @R.function
    def main(x: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
        y: R.Tensor((2, 4), dtype="float32") = R.add(x, x)
        return y
"#;

/// Computes the result of the pass `t.Returns`.
type Make = Box<dyn Fn(&Module) -> Result<Module, PassError> + Send + Sync>;

/// Returns an engine with the standard plugins and a pass `t.Returns`.
fn engine(make: Make) -> Arc<Engine> {
    // The tests of this file run concurrently, so the standard plugins are built before any test reads one.
    passhost_tests::shared_engine();
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    let mut engine = Engine::new(&manifest).expect("the standard plugins");
    engine.add_pass(create_module_pass(PassInfo::new("t.Returns"), move |module, _| make(module))).expect("a new name");
    Arc::new(engine)
}

fn run_of(make: Make, deny: bool, paranoid: bool) -> RunReport {
    let engine = engine(make);
    let module = script::read(MODULE, &*engine).expect("a module");
    let context = PassContext::default();
    let plan = Pass::find(&engine, "t.Returns").expect("it is there").plan(&context).expect("a plan");
    let runner = Runner::new(&engine, BTreeMap::new()).deny_unknown_operators(deny).paranoid(paranoid);
    runner.run(&plan, module).expect("plugins open")
}

/// Returns the reason why the result of a pass is refused; the error must name the pass.
fn refused(make: impl Fn(&Module) -> Result<Module, PassError> + Send + Sync + 'static) -> String {
    match run_of(Box::new(make), false, false).error {
        Some(Error::Step { pass, message, .. }) if pass == "t.Returns" => message,
        other => format!("not refused: {other:?}"),
    }
}

/// Returns a module with a different `main`.
fn with_main(module: &Module, body: Body) -> Module {
    let mut edit = module.edit();
    edit.set("main", body);
    edit.finish()
}

/// Changes the records of `main`.
fn forged(module: &Module, f: impl FnOnce(&mut Sections)) -> Result<Module, PassError> {
    let mut sections = Sections::copy_of(module.get("main").expect("it is there").raw());
    f(&mut sections);
    Ok(with_main(module, Body::seal(&sections)?))
}

/// Returns a function whose result is the value that `f` builds.
fn built(f: impl FnOnce(&mut BodyBuilder, V) -> V) -> Result<Body, PassError> {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let ty = b.ty(&Type::tensor([2i64, 4], DType::F32));
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::BLOCK), &[], None);
    let y = f(&mut b, x);
    b.end();
    let ret = b.type_of(y);
    b.end_function(y, ret);
    Ok(b.finish()?)
}

fn call(b: &mut BodyBuilder, op: &str, args: &[V], attrs: AttrsId, name: Option<&str>) -> V {
    let (op, ty) = (b.op(op), b.type_of(args[0]));
    b.call(op, args, attrs, ty, false, name)
}

#[test]
fn a_result_has_functions_only() {
    let meta_as_function = |module: &Module| {
        let mut edit = module.edit();
        edit.set("meta", module.meta().expect("it has attributes").clone());
        Ok(edit.finish())
    };
    let why = "returned an ill-formed module: is the attributes of a module; a module can contain only \
               Relax functions, PrimFuncs and external functions";
    assert_eq!(refused(meta_as_function), why);
    let report = run_of(Box::new(meta_as_function), false, true);
    assert!(report.error.is_some_and(|error| error.to_string().contains(why)), "with --paranoid");
    let function_as_meta = |module: &Module| {
        let functions: Vec<(String, Body)> =
            module.functions().map(|(name, body)| (name.into(), body.clone())).collect();
        Ok(Module::with_meta(functions, module.get("main").cloned()))
    };
    assert!(refused(function_as_meta).contains("its attributes are a function"));
}

#[test]
fn an_input_has_functions_only() {
    let engine = engine(Box::new(|module| Ok(module.clone())));
    let module = script::read(MODULE, &*engine).expect("a module");
    let mut edit = module.edit();
    edit.set("meta", module.meta().expect("it has attributes").clone());
    let error = Pass::find(&engine, "t.Returns").expect("it is there").run(&edit.finish()).expect_err("no function");
    assert!(error.to_string().contains("function `meta`: is the attributes of a module"), "{error}");
}

#[test]
fn a_kind_that_no_version_has_is_refused() {
    let why = refused(|module| {
        forged(module, |sections| {
            let node = sections.nodes.iter_mut().find(|node| node.kind == kind::CALL).expect("there is a call");
            node.kind = 30_583;
        })
    });
    assert!(why.contains("unknown kind 0x7777"), "{why}");
}

/// The text must represent the IR exactly: numbers of elements, results, dimensions, types.
#[test]
fn what_no_text_says_is_refused() {
    let y = |sections: &mut Sections| sections.nodes.iter().position(|node| node.kind == kind::CALL).expect("a call");
    type Change = Box<dyn Fn(&mut Sections) + Send + Sync>;
    let changes: [(&str, Change); 6] = [
        (
            "the number in `y` is `7`, read as `0`",
            Box::new(move |sections| {
                let at = y(sections);
                sections.nodes[at].a = 7;
            }),
        ),
        (
            "`y` has the flag of a region that is a value, read without it",
            Box::new(move |sections| {
                let at = y(sections);
                sections.nodes[at].flags |= flag::OWNER;
            }),
        ),
        (
            "the type of the function has flags or a number of parts that text cannot express",
            Box::new(|sections| {
                let callable = sections.types.iter_mut().find(|ty| ty.kind == tykind::CALLABLE).expect("there is one");
                callable.ndim = 5;
            }),
        ),
        (
            "the type of the function is missing, read as `R.Callable((R.Tensor((2, 4), dtype=\"float32\"),), R.Any, True)`",
            Box::new(|sections| sections.nodes[0].ty = u32::MAX),
        ),
        (
            "the type of `x` has flags or a number of parts that text cannot express",
            Box::new(|sections| sections.types[0].flags |= 128),
        ),
        (
            "function `main`: virtual device 3, which the module does not have, cannot be written as text",
            Box::new(|sections| sections.types[0].aux = 3),
        ),
    ];
    for (what, change) in changes {
        let why = refused(move |module| forged(module, &change));
        assert!(why.starts_with("returned an ill-formed module: ") && why.contains(what), "{what}: {why}");
    }
}

/// The type of a call, even of the last call, must be the type that its operator infers. The message contains advice.
#[test]
fn a_call_with_a_wider_type_than_its_operator_returns_is_refused() {
    let why = refused(|module| {
        let body = built(|b, x| {
            let (exp, ty) = (b.op("relax.exp"), b.ty(&Type::Object));
            b.call(exp, &[x], AttrsId::NONE, ty, false, Some("y"))
        })?;
        Ok(with_main(module, body))
    });
    let expected = "the type of `y` is `R.Any`, read as `R.Tensor((2, 4), dtype=\"float32\")`, which is the type of this call of \
                    `relax.exp`; `infer_types(&body, ctx)` sets the types of all calls";
    assert!(why.contains(expected), "{why}");
}

/// The message contains the attribute, its value, and the value as parsed.
#[test]
fn attributes_that_read_otherwise_are_named() {
    let odd = || Attr::list([Attr::Int(1), Attr::Object("T.int64".into(), [(None, Attr::Int(1))].into())]);
    let said = |of: &str| {
        let (one, other) = (r#"Object("T.int64", [(None, Int(1))])"#, "Dim(Int(1))");
        format!(
            "element 1 of attribute `sizes`{of} is `{one}`, read as `{other}`; return the module as it is read \
             back, or a module that text can express"
        )
    };
    let why = refused(move |module| {
        let body = built(|b, x| {
            let attrs = b.attrs([("same", Attr::Int(1)), ("sizes", odd())]);
            call(b, "relax.made.up", &[x], attrs, Some("y"))
        })?;
        Ok(with_main(module, body))
    });
    let expected =
        format!("returned an ill-formed module: its text reads back as a different function: {}", said(" of `y`"));
    assert_eq!(why, expected);
    let why = refused(move |module| {
        let mut edit = module.edit();
        edit.set_attrs(vec![("kept".into(), Attr::Int(1)), ("sizes".into(), odd())], Vec::new())?;
        Ok(edit.finish())
    });
    let expected = "returned an ill-formed module: attributes of the module: their text reads back differently: ";
    assert_eq!(why, format!("{expected}{}", said("")));
}

/// TVM parses these function attributes as one kind of value only, and rejects a text with any other kind.
#[test]
fn attributes_of_functions_are_of_their_kind() {
    let kinds = || {
        let dict = Attr::dict([("a", 1i64)]);
        let target = Attr::Object("T.target".into(), [(None, Attr::from("llvm"))].into());
        [Attr::None, Attr::Float(1.5), Attr::list([1i64]), dict, target, Attr::Type(Type::Object)]
    };
    // The second function is inside the first.
    let main = |outer: Option<(&'static str, Attr)>, inner: Option<(&'static str, Attr)>| {
        refused(move |module| {
            let [outer, inner] = [&outer, &inner].map(|said| said.clone().into_iter().collect::<Vec<_>>());
            let ctx = Ctx::detached();
            let bb = BlockBuilder::new(&ctx);
            let body = bb.body("main", |b| {
                let ty = Type::tensor([2i64, 4], DType::F32);
                let x = b.param("x", ty.clone());
                b.func_attrs(&outer);
                let f = b.local_function("f", |b| {
                    let y = b.param("y", ty);
                    b.func_attrs(&inner);
                    b.emit_func_output(y);
                });
                let y = b.emit(b.call_value(f, &[x]));
                b.emit_func_output(y);
            });
            Ok(with_main(module, body.expect("it is built")))
        })
    };
    for value in kinds().into_iter().chain([Attr::Int(1), Attr::Bool(true)]) {
        let why = main(Some(("global_symbol", value.clone())), None);
        assert!(why.contains("has a global_symbol that is not a string; set it to \"main\""), "{value:?}: {why}");
        let why = main(None, Some(("global_symbol", value)));
        assert!(why.contains("is inside another function, but has a global_symbol"), "{why}");
    }
    for value in kinds().into_iter().chain([Attr::from("yes"), Attr::Dim(Dim::int(1, DType::I32))]) {
        for (outer, inner) in [(Some(value.clone()), None), (None, Some(value.clone()))] {
            let why = main(outer.map(|value| ("relax.force_pure", value)), inner.map(|v| ("relax.force_pure", v)));
            assert!(why.contains("sets relax.force_pure to a value that is not a boolean"), "{value:?}: {why}");
        }
    }
    // Values that TVM accepts.
    for value in [Attr::Bool(true), Attr::Int(1)] {
        let why = main(Some(("relax.force_pure", value.clone())), Some(("relax.force_pure", value)));
        assert!(why.starts_with("not refused") && why.ends_with("None"), "{why}");
    }
    // No text can have a type as a function attribute.
    for value in kinds().into_iter().filter(|value| !matches!(value, Attr::Type(_))) {
        let why = main(Some(("num_input", value.clone())), Some(("primitive", value)));
        assert!(why.starts_with("not refused") && why.ends_with("None"), "{why}");
    }
}

/// The global symbol of a PrimFunc, which may differ from its name in the module, must also be a string.
#[test]
fn the_global_symbol_of_a_prim_func_is_a_string() {
    let prim_func = |value: &Attr, private: bool| {
        let value = value.clone();
        refused(move |module| {
            let mut b = BodyBuilder::new();
            let attrs = b.attrs([("global_symbol", value.clone())]);
            let flags = if private { flag::PRIVATE } else { 0 };
            b.begin(NodeSpec::new(kind::PRIM_FUNC).attrs(attrs).flags(flags), &[], None);
            let zero = b.scalar(&Dim::int(0, DType::I32));
            b.node(NodeSpec::new(kind::EVALUATE).flags(flag::IMPURE), &[zero], None);
            b.end();
            let mut edit = module.edit();
            edit.set("f", b.finish()?);
            Ok(edit.finish())
        })
    };
    for value in [Attr::Int(1), Attr::None, Attr::list(["f"])] {
        assert!(prim_func(&value, false).contains("has a global_symbol that is not a string; set it to \"f\""));
        assert!(prim_func(&value, true).contains("is private, but has the global_symbol; remove one of them"));
    }
    assert!(prim_func(&Attr::from("f"), true).contains("is private, but has the global_symbol \"f\""));
    for name in ["f", "other"] {
        let why = prim_func(&Attr::from(name), false);
        assert!(why.starts_with("not refused") && why.ends_with("None"), "{why}");
    }
}

/// A pass cannot create a target that TVM does not accept.
#[test]
fn targets_are_those_of_tvm() {
    let target = |content: Attr| {
        refused(move |module| {
            let mut edit = module.edit();
            let target = Attr::Object("T.target".into(), [(None, content.clone())].into());
            edit.set_attrs(vec![("k".into(), target)], Vec::new())?;
            Ok(edit.finish())
        })
    };
    assert!(target(Attr::Int(1)).contains("a target must be a string or a dict"));
    assert!(target(Attr::dict([("kind", 1i64)])).contains("a target needs a string `kind`"));
    assert!(target(Attr::from("llvm -mcpu=x")).contains("unknown target `llvm -mcpu=x`"));
    assert!(target(Attr::dict([("kind", "llvm")])).starts_with("not refused"));
}

#[test]
fn names_are_those_of_python() {
    for name in ["relax.add(x, x)\n import os #", "relax.add\u{0}", "relax.ｄiv", "relax.if", "relax.", ""] {
        let why = refused(move |module| {
            Ok(with_main(module, built(|b, x| call(b, name, &[x, x], AttrsId::NONE, Some("y")))?))
        });
        assert!(why.contains("which is not a valid name in Python"), "{name:?}: {why}");
    }
    let keyed = |key: &'static str| {
        refused(move |module| {
            let main = built(|b, x| {
                let attrs = b.attrs([(key, Attr::Int(1))]);
                call(b, "acme.op", &[x], attrs, Some("y"))
            })?;
            Ok(with_main(module, main))
        })
    };
    for key in ["a=1, b", "if", "a\n", ""] {
        let why = keyed(key);
        assert!(why.contains("which is not a valid name in Python"), "{key:?}: {why}");
    }
    let object = refused(|module| {
        let mut edit = module.edit();
        edit.set_attrs(vec![("k".into(), Attr::Object("T.x(1)\n, ".into(), Vec::new().into()))], Vec::new())?;
        Ok(edit.finish())
    });
    assert!(object.contains("which is not a valid name in Python"), "{object}");
    for name in ["ｍain", "a b", "if", "", "T"] {
        let why = refused(move |module| {
            let mut edit = module.edit();
            edit.set(name, module.get("main").expect("it is there").clone());
            Ok(edit.finish())
        });
        assert!(why.contains("has a name that is not a valid Python identifier"), "{name:?}: {why}");
    }
}

/// Names of variables are hints: names that Python treats as equal are made distinct.
#[test]
fn variables_that_python_takes_for_one_stay_two() {
    let report = run_of(
        Box::new(|module| {
            let mut b = BodyBuilder::new();
            b.begin_function(0, AttrsId::NONE, None);
            let [n, m] = ["n", "ｎ"].map(|name| Dim::Var(b.sym(name, DType::I64)));
            let ty = b.ty(&Type::tensor([n, m], DType::F32));
            let [x, _] = ["y", "ｙ"].map(|name| b.param(name, ty));
            b.end_function(x, ty);
            Ok(with_main(module, b.finish()?))
        }),
        false,
        false,
    );
    assert!(report.error.is_none(), "{:?}", report.error);
    let text = script::print(&report.module, &script::NoOps).expect("the module can be printed");
    assert!(text.contains("def main(y: R.Tensor((n, n_1)") && text.contains("y_1: R.Tensor((n, n_1)"), "{text}");
}

#[test]
fn names_that_python_spells_otherwise_are_refused_in_a_text() {
    let text = |dims: &str, type_vars: &str| {
        let ty = format!("R.Tensor(({dims}), dtype=\"float32\")");
        format!(
            "{type_vars}@I.ir_module\nclass Module:\n    @R.function\n    def main(x: {ty}) -> {ty}:\n        return x\n"
        )
    };
    let why = |text: &str| script::read(text, &script::NoOps).expect_err("another spelling").to_string();
    let declared = why(&text("ｎ, n", "ｎ = TypeVar(\"ｎ\")\nn = TypeVar(\"n\")\n"));
    assert!(declared.contains("Python reads `ｎ` as `n`"), "{declared}");
    let quoted = why(&text("\"ｎ\", \"n\"", ""));
    assert!(quoted.contains("Python reads `ｎ` as `n`"), "{quoted}");
    script::read(&text("\"n\", \"π\"", ""), &script::NoOps).expect("two names");
}

#[test]
fn a_constant_is_as_long_as_its_type_says() {
    for (dims, bytes) in [(vec![1i64 << 40], 4usize), (vec![2], 4), (vec![], 8), (vec![1 << 62, 16], 0), (vec![-1], 0)]
    {
        let why = refused(move |module| {
            let (tensor, ty) = (Tensor::new(&vec![0; bytes]), Type::tensor(dims.clone(), DType::F32));
            let main = built(|b, _| {
                let constant = b.constant(&tensor, &ty);
                let ty = b.ty(&ty);
                b.node(NodeSpec::new(kind::ALIAS).ty(ty), &[constant], Some("y"))
            })?;
            Ok(with_main(module, main))
        });
        assert!(why.contains("constant 0: the length of its data contradicts its type"), "{why}");
    }
}

/// The parser accepts 4,000 levels in a printed module.
#[test]
fn what_is_nested_deeper_than_a_text_can_be_is_refused() {
    let calls = refused(|module| {
        let main = built(|b, x| {
            let mut deep = x;
            for _ in 0..9_999 {
                deep = call(b, "relax.nn.relu", &[deep], AttrsId::NONE, None);
            }
            call(b, "relax.nn.relu", &[deep], AttrsId::NONE, Some("y"))
        })?;
        Ok(with_main(module, main))
    });
    assert!(calls.contains("its text cannot be read") && calls.contains("nested"), "{calls}");
    let lists = refused(|module| {
        let deep = (0..9_999).fold(Attr::Int(1), |deep, _| Attr::list([deep]));
        let mut b = BodyBuilder::new();
        let attrs = b.attrs([("k", deep)]);
        b.begin_function(0, attrs, None);
        let any = b.ty(&Type::Object);
        let x = b.param("x", any);
        b.end_function(x, any);
        Ok(with_main(module, b.finish()?))
    });
    assert!(lists.contains("nested"), "{lists}");
}

#[test]
fn an_operator_that_nobody_declares_is_told_and_can_be_denied() {
    let divides = || -> Make {
        Box::new(|module| {
            let main = built(|b, x| call(b, "relax.div", &[x, x], AttrsId::NONE, Some("y")))?;
            Ok(with_main(module, main))
        })
    };
    let message = "introduces a call of `relax.div`, an operator that no plugin declares; did you mean `relax.min`, \
                   `relax.sin` or `relax.divide`?";
    let report = run_of(divides(), false, false);
    assert!(report.error.is_none(), "{:?}", report.error);
    let [warning] = &report.diagnostics[..] else { panic!("{:?}", report.diagnostics) };
    assert_eq!((warning.pass.as_str(), warning.severity), ("t.Returns", Severity::Warning));
    assert_eq!(warning.message, message);
    assert!(warning.place.is_some() && warning.function.as_deref() == Some("main"));
    let denied = run_of(divides(), true, false).error.expect("it is denied");
    assert_eq!(denied.to_string(), format!("step 1, pass `t.Returns` of plugin `host`: {message}"));
    // The names in the input are the parser's concern.
    let engine = engine(divides());
    let module = script::read(&MODULE.replace("R.add", "R.div"), &*engine).expect("a module");
    let plan = Pass::find(&engine, "t.Returns").expect("it is there").plan(&PassContext::default()).expect("a plan");
    let runner = Runner::new(&engine, BTreeMap::new()).deny_unknown_operators(true);
    let report = runner.run(&plan, module).expect("plugins open");
    assert!(report.error.is_none() && report.diagnostics.is_empty(), "{report:?}");
}

/// If the type of a callee changes, the printed caller would have a different type than the caller itself.
#[test]
fn callers_of_a_function_that_changed_its_type_are_looked_at() {
    let engine = engine(Box::new(|module| {
        let mut edit = module.edit();
        let mut b = BodyBuilder::new();
        b.begin_function(flag::PRIVATE, AttrsId::NONE, None);
        let [takes, gives] = [Type::tensor([2i64, 4], DType::F32), Type::Object].map(|ty| b.ty(&ty));
        let x = b.param("x", takes);
        b.end_function(x, gives);
        edit.set("callee", b.finish()?);
        Ok(edit.finish())
    }));
    let ty = "R.Tensor((2, 4), dtype=\"float32\")";
    let text = format!(
        "@I.ir_module\nclass Module:\n    @R.function(private=True)\n    def callee(x: {ty}) -> {ty}:\n        return x\n    \
         @R.function\n    def main(x: {ty}) -> {ty}:\n        cls = Module\n        y: {ty} = cls.callee(x)\n        return y\n"
    );
    let module = script::read(&text, &*engine).expect("a module");
    let error = Pass::find(&engine, "t.Returns").expect("it is there").run(&module).expect_err("`main` is stale");
    assert!(error.to_string().contains("calls `callee` with its former type"), "{error}");
}

/// Overly deep types, dimensions and attributes are refused without recursion.
#[test]
fn depth_is_refused_before_it_takes_the_stack() {
    let deep = || {
        let mut ty = Type::Object;
        let mut attr = Attr::Int(1);
        let mut dim = Dim::Int(1);
        for _ in 0..1_000_000 {
            ty = Type::tuple([ty]);
            attr = Attr::dict([("k", Attr::list([attr]))]);
            dim = Dim::binary(PrimOp::Add, dim, Dim::Int(2));
        }
        let refusal = |b: BodyBuilder| b.finish().expect_err("too deep").to_string();
        let new = || {
            let mut b = BodyBuilder::new();
            b.begin_function(0, AttrsId::NONE, None);
            let any = b.ty(&Type::Object);
            let x = b.param("x", any);
            (b, x, any)
        };
        let (mut b, x, _) = new();
        let deep_type = b.ty(&ty);
        b.end_function(x, deep_type);
        assert_eq!(refusal(b), "type 0: nested more than 1000 deep; name inner parts to flatten it");
        let (mut b, _, any) = new();
        let shape = b.shape(&[dim]);
        b.end_function(shape, any);
        assert_eq!(refusal(b), "dimension 0: nested more than 1000 deep; name inner parts to flatten it");
        let (mut b, x, any) = new();
        b.attrs([("k", attr)]);
        b.end_function(x, any);
        assert_eq!(refusal(b), "attribute 0: nested more than 1000 deep; name inner parts to flatten it");
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(deep).expect("a thread");
    thread.join().expect("it does not overflow");
}

/// Makes the changes of each seed, and checks that every module that verifies reads back as the same module. Returns
/// the counts.
fn forged_without_findings(mut forge: fuzz::Forge<'_>, seeds: impl IntoIterator<Item = u64>) -> fuzz::Counts {
    let (mut counts, mut found) = (fuzz::Counts::default(), Vec::new());
    for seed in seeds {
        let outcome = forge.outcome(seed);
        counts.add(&outcome);
        if let fuzz::Outcome::Bad(finding) = &outcome {
            found.push(forge.report(seed, finding));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    counts
}

/// Tests the property itself on a few random changes; `forge` makes any number of changes.
#[test]
fn whatever_verifies_reads_back_as_the_same_module() {
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    let engine = Engine::new(&manifest).expect("the standard plugins");
    let counts = Mutex::new(fuzz::Counts::default());
    std::thread::scope(|scope| {
        for part in 0..4u64 {
            let (engine, counts) = (&engine, &counts);
            scope.spawn(move || {
                let own = forged_without_findings(fuzz::Forge::new(engine), (0..4_096).map(|i| part << 32 | i));
                let mut all = counts.lock().expect("no panic");
                *all = all.plus(&own);
            });
        }
    });
    let counts = counts.into_inner().expect("no panic");
    assert!(counts.sealed > 4_000 && counts.verified > 2_000, "{counts:?}");
}

/// PrimFuncs of the usual form are not parsed again after a pass. This must be correct even if the records of the
/// functions were changed.
#[test]
fn prim_funcs_of_usual_form_read_back_as_the_same_function() {
    let given = fuzz::prim_funcs([fuzz::PRIM_FUNCS]);
    let functions: Vec<(&str, &Body)> = given.iter().flat_map(Module::functions).collect();
    let unusual: Vec<&str> =
        functions.iter().filter(|(_, body)| !is_plain_prim_func(body)).map(|(name, _)| *name).collect();
    assert!(functions.len() >= 8 && unusual.is_empty(), "{} functions, of them unusual: {unusual:?}", functions.len());
    let counts = forged_without_findings(fuzz::Forge::of(&script::NoOps, given), 0..8_192);
    assert!(counts.plain > 800, "{counts:?}");
}

/// Relax functions of the usual form are not parsed again after a pass, either. Their calls of PrimFuncs may have several
/// results.
#[test]
fn calls_with_several_results_read_back_as_the_same_function() {
    const TEXT: &str = r#"@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def both(a: T.Buffer((T.int64(2), T.int64(3)), "float32"), b: T.Buffer((T.int64(2), T.int64(3)), "float32"), c: T.Buffer((T.int64(3),), "float32")):
        for i, j in T.grid(T.int64(2), T.int64(3)):
            b[i, j] = a[i, j]
            c[j] = a[i, j]

    @R.function(private=True)
    def fused(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3,), "float32"), one: R.Tensor((), "float32")) -> R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((3,), "float32")):
        R.func_attr({"Primitive": True})
        with R.dataflow():
            y = R.call_tir(Module.both, (x,), out_ty=[R.Tensor((2, 3), "float32"), R.Tensor((3,), "float32")])
            R.output(y)
        return y

    @R.function
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3,), "float32"):
        with R.dataflow():
            y: R.Tuple(R.Tensor((2, 3), "float32"), R.Tensor((3,), "float32")) = Module.fused(x, R.const([1.0, 2.0, 3.0], "float32"), R.const(1.0, "float32"))
            first: R.Tensor((2, 3), "float32") = y[0]
            z = R.call_tir(Module.both, (first,), out_ty=[R.Tensor((2, 3), "float32"), R.Tensor((3,), "float32")])
            second: R.Tensor((3,), "float32") = z[1]
            R.output(second)
        return second
"#;
    let manifest = Manifest::load(&root().join("passes.toml")).expect("the default manifest");
    let engine = Engine::new(&manifest).expect("the standard plugins");
    let given = script::read(TEXT, &engine).unwrap_or_else(|error| panic!("{error}"));
    let counts = forged_without_findings(fuzz::Forge::of(&engine, vec![given]), 0..8_192);
    assert!(counts.verified > 1_000, "{counts:?}");
}

/// A table can contain an entry twice. A text contains values, so it does not distinguish equal entries.
#[test]
fn entries_that_are_there_twice_do_not_show() {
    use plugin_api::ir::records::LEAF_BIT;
    let module = script::read(fuzz::PRIM_FUNCS, &script::NoOps).expect("a module");
    let body = module.get("matmul_relu").expect("a function");
    let mut sections = Sections::copy_of(body.raw());
    let n = sections.leaves.len() as u32;
    sections.leaves.extend_from_within(..);
    let mut changed = 0;
    for node in sections.nodes.clone().iter().filter(|node| node.kind == kind::ITER_VAR) {
        for op in sections.operands[node.op_range()].iter_mut().filter(|op| **op & LEAF_BIT != 0) {
            *op += n;
            changed += 1;
        }
    }
    assert!(changed > 4);
    let mut edit = module.edit();
    edit.set("matmul_relu", Body::seal(&sections).expect("a function"));
    let shown = |module: &Module| script::print(module, &script::NoOps).expect("a text");
    assert_eq!(shown(&edit.finish()), shown(&module));
}

/// Runs the seeds of `forge` that revealed bugs.
#[test]
fn findings_of_forge_stay_mended() {
    let mut forge = fuzz::Forge::new(passhost_tests::engine());
    for seed in [432, 1_330, 2_650, 192_250, 211_011, 250_397, 384_000, 466_110, 1_058_803, 1_108_490] {
        let outcome = forge.outcome(seed);
        assert!(!matches!(outcome, fuzz::Outcome::Bad(_)), "seed {seed}: {outcome:?}");
    }
}

/// Types refer to virtual devices by position in a list, so a different list changes the meaning of unchanged
/// functions.
#[test]
fn virtual_devices_are_looked_at_in_functions_that_did_not_change() {
    let text = "@I.ir_module\nclass Module:\n    I.module_global_infos({\"vdevice\": [I.vdevice({\"kind\": \"llvm\"}, 0, \
                \"global\"), I.vdevice({\"kind\": \"cuda\"}, 0, \"global\")]})\n    @R.function\n    def main(x: \
                R.Tensor((2,), \"float32\", \"cuda:0:global\")) -> R.Tensor((2,), \"float32\", \"cuda:0:global\"):\n        \
                return x\n";
    let refusal = |devices: fn(Vec<Attr>) -> Attr| {
        let engine = engine(Box::new(move |module| {
            let Some(Attr::List(known)) =
                module.global_infos().and_then(|infos| Some(infos.get("vdevice")?.to_owned()))
            else {
                bail!("the module has devices")
            };
            let mut edit = module.edit();
            let devices = devices(known.iter().cloned().collect());
            edit.set_attrs(Vec::<(String, Attr)>::new(), vec![("vdevice".to_string(), devices)])?;
            Ok(edit.finish())
        }));
        let module = script::read(text, &*engine).expect("a module");
        Pass::find(&engine, "t.Returns").expect("it is there").run(&module).expect_err("devices differ").to_string()
    };
    let fewer = refusal(|known| Attr::list(known.into_iter().take(1)));
    assert!(fewer.contains("pass `t.Returns`") && fewer.contains("virtual device 1"), "{fewer}");
    let others = refusal(|known| Attr::list(known.into_iter().map(|_| Attr::Int(1))));
    assert!(others.contains("pass `t.Returns`") && others.contains("must be a list of I.vdevice"), "{others}");
}
