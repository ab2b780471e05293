//! Tests the plugins under `examples/`, read and opened as in the host.
#![allow(clippy::unwrap_used, reason = "test helpers may panic, which fails the test")]

mod opened;

use object::Object;
use opened::host::Host;
use opened::{library, meta, open, section, symbol};
use plugin_api::PassError;
use plugin_api::abi::entry::ENTRY_SYMBOL;
use plugin_api::abi::host::*;
use plugin_api::declare::pass::Ctx;
use plugin_api::ir::records::kind;
use plugin_api::ir::{AttrsId, Body, BodyBuilder, DType, Dim, Module, NodeSpec, Type};
use plugin_api::metadata::{Granularity, OptionType, OptionValue, PluginMeta, Tolerance};
use plugin_api::scalar::PrimOp;
use plugin_api::typing::operators::Inferred;
use std::process::Command;
use std::sync::Mutex;

/// `f(x) { with dataflow: lv = example.identity(x); return lv }`
fn function() -> Body {
    let mut b = BodyBuilder::new();
    let ty = b.ty(&Type::tensor([2, 3], DType::F32));
    b.begin_function(0, AttrsId::NONE, None);
    let x = b.param("x", ty);
    b.begin(NodeSpec::new(kind::DATAFLOW), &[], None);
    let op = b.op("example.identity");
    let lv = b.call(op, &[x], AttrsId::NONE, ty, false, Some("lv"));
    b.end();
    b.end_function(lv, ty);
    b.finish().unwrap()
}

fn module() -> Module {
    Module::new([("bad", function()), ("good", function()), ("bad_too", function())])
}

fn default_options(meta: &PluginMeta, pass: &str) -> (usize, Vec<OptionValue>) {
    let at = meta.passes.iter().position(|info| info.name == pass).unwrap();
    (at, meta.passes[at].options.iter().map(|option| option.default.clone().unwrap()).collect())
}

/// Returns the host of `example.Talk`.
fn host() -> Host {
    let items = || [OptionValue::Str("a\nb".into()), OptionValue::Int(3)];
    let config = move |key: &str| (key == "example.key").then(|| OptionValue::List(items().into()));
    Host { pass: "example.Talk", target: Some("llvm"), config: Some(Box::new(config)), ..Host::default() }
}

/// Reads a file in this crate.
fn source(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the words of a text that can be item names.
fn words(text: &str) -> std::collections::BTreeSet<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// The plugin is frozen; it compiles unchanged against every version 1.x.
#[test]
fn a_plugin_written_against_1_0_runs() {
    let (plugin, meta) = open("api_1_0");
    let module = module();
    let ran: Vec<&str> = meta.passes.iter().map(|pass| pass.name.as_str()).collect();
    let results = meta.passes.iter().enumerate().map(|(at, pass)| {
        let (_, options) = default_options(&meta, &pass.name);
        let host = Host { pass: "frozen", ..Host::default() };
        if pass.granularity == Granularity::Module {
            return with_current(&host, 2, || plugin.run_module(at, &module, &options)).map(|module| module.len());
        }
        let functions: Vec<(&str, &Body)> = module.functions().collect();
        let results = with_current(&host, 2, || plugin.run_functions(at, &functions, &options));
        results.into_iter().map(|result| result.map(|_| 1)).sum()
    });
    let results: Vec<usize> = results.map(|result| result.unwrap()).collect();
    // The first bindings of the three functions are equal, so they become one function; two are new.
    let expected = [3, 3, 3, 3, 3, 3, 6];
    let named: Vec<(&str, usize)> = ran.into_iter().zip(results).collect();
    assert!(named.iter().map(|(_, n)| *n).eq(expected), "{named:?}");
}

fn opens_nothing(name: &str) -> Result<plugin_api::ir::Tensor, String> {
    Err(format!("the test has no file `{name}`"))
}

/// A plugin for API 1.1 can have readers and writers.
#[test]
fn a_plugin_written_against_1_1_reads_and_writes() {
    let (plugin, meta) = open("api_1_1");
    let [sizes, nothing] = meta.readers.as_slice() else { panic!("{:?}", meta.readers) };
    assert_eq!((sizes.name.as_str(), sizes.extensions.join(" ").as_str()), ("sizes", "sizes sz"));
    assert_eq!((sizes.begins.as_slice(), nothing.extensions.len()), (&[b"#sizes".to_vec()][..], 0));
    assert_eq!((sizes.example.as_str(), nothing.example.as_str()), ("passhost run model.sizes -o model.py", ""));
    assert_eq!(sizes.options[0].default, Some(OptionValue::Int(3)));
    let host = Host { pass: "sizes", ..Host::default() };
    let read = |path: Option<&str>, bytes: &[u8], most| {
        let facts = FileFacts { name: "a.sizes", path: path.map(std::path::Path::new) };
        with_current(&host, 2, || plugin.read(0, facts, bytes, &opens_nothing, &[OptionValue::Int(most)]))
    };
    let module = read(None, b"#sizes\n3\n0\n", 3).unwrap();
    assert_eq!(module.functions().map(|(name, _)| name).collect::<Vec<_>>(), ["f1", "f2"]);
    assert_eq!(host.told.take(), [(None, None, "a tensor without elements".to_string())]);
    let error = |failure| {
        if let RunFailure::Error(error) = failure { (error.message, error.is_of_option) } else { panic!("{failure}") }
    };
    let wrong = error(read(None, b"3\nx\n", 3).unwrap_err());
    assert_eq!(wrong, ("line 2: expected a size, found `x`".to_string(), false));
    let wrong = error(read(None, b"1\n\xff\n", 3).unwrap_err());
    assert_eq!(wrong.0, "line 2: expected UTF-8, found other bytes at byte 2");
    let wrong = error(read(None, b"1\n2\n", 1).unwrap_err());
    assert_eq!(wrong, ("option `most` is 1, but a.sizes has more".to_string(), true));
    let panic = read(Some("/a.sizes"), b"", 1).unwrap_err();
    assert!(matches!(&panic, RunFailure::Panic(text) if text.starts_with("an empty file (")), "{panic}");
    assert!(matches!(
        with_current(&host, 2, || plugin.read(7, FileFacts { name: "", path: None }, b"", &opens_nothing, &[])),
        Err(RunFailure::Error(_))
    ));
    let open = |name: &str| match name {
        "" => Ok(plugin_api::ir::Tensor::new(b"12345")),
        "w.bin" => Ok(plugin_api::ir::Tensor::new(&[0; 7])),
        _ => Err("it is not there".to_string()),
    };
    for (name, said) in [("beside:w.bin", "5 bytes, and 7 beside them"), ("beside:x", "`x`: it is not there")] {
        let failed = with_current(&host, 2, || plugin.read(1, FileFacts { name, path: None }, b"", &open, &[]));
        assert_eq!(error(failed.unwrap_err()).0, said);
    }
    written(&plugin, &host, &module);
}

fn written(plugin: &OpenPlugin, host: &Host, module: &Module) {
    let write = |writer, path: Option<&str>, options: &[OptionValue], most: usize| {
        let facts = FileFacts { name: "b.sizes", path: path.map(std::path::Path::new) };
        let mut files: Vec<(String, String)> = Vec::new();
        let mut take = |name: &str, bytes: &[u8]| {
            files.push((name.to_string(), String::from_utf8_lossy(bytes).into_owned()));
            files.len() <= most
        };
        let result = with_current(host, 2, || plugin.write(writer, module, facts, options, &mut take));
        (result, files.into_iter().map(|(name, text)| format!("{name}:{text}")).collect::<String>())
    };
    assert_eq!(write(0, None, &[], 9), (Ok(()), ":f1:\n:f2:\n".to_string()));
    let beside = [OptionValue::Str("c".to_string())];
    let (result, files) = write(1, Some("/b.sizes"), &beside, 9);
    assert_eq!(result, Ok(()));
    assert!(files.starts_with(":2 of b.sizes\nc:f1 ") && files.contains("\nc:f2 "), "{files}");
    let (result, files) = write(1, Some("/b.sizes"), &beside, 1);
    assert_eq!(result, Err(RunFailure::Error(PassError::new("the host does not accept the written data"))), "{files}");
    assert_eq!(write(1, None, &beside, 9).0, Err(RunFailure::Error(PassError::new("no path"))));
}

/// The API version of a plugin is the lowest sufficient version, so that older hosts load it.
#[test]
fn only_a_plugin_with_a_reader_or_a_writer_is_one_of_1_1() {
    let versions = ["smallest", "every_kind", "api_1_0", "api_1_1"].map(|name| meta(name).api.to_string());
    assert_eq!(versions, ["1.0.0", "1.0.0", "1.0.0", "1.1.0"]);
}

/// Returns the names that the `pub use` items of a file export; `*` for a glob.
fn exported(file: &str) -> Vec<String> {
    let text = source(file);
    let code = text.split_once("pub use").unwrap().1;
    let ends =
        code.split([',', ';', '}']).filter_map(|path| path.rsplit(['{', ':', ' ', '\n']).find(|word| !word.is_empty()));
    ends.map(str::to_string).collect()
}

/// Items added to a later prelude are used in the plugin of that version.
#[test]
fn each_item_of_the_prelude_is_used_by_a_plugin_of_its_version() {
    let used = source("examples/api_1_0.rs") + &source("examples/api_1_1.rs");
    let used = words(&used);
    let items = [exported("src/prelude.rs"), exported("src/prelude/rest_of_1_0.rs")].concat();
    let missing: Vec<String> = items.into_iter().filter(|item| item != "*" && !used.contains(item.as_str())).collect();
    assert!(missing.is_empty(), "add an example of the version that has {missing:?}");
}

/// The only other names are hidden, and the plugins of 1.0 and 1.1 use each of them (see the test above).
#[test]
fn the_prelude_has_at_most_60_names_and_none_of_the_builders_and_visitors() {
    let mut names = exported("src/prelude.rs");
    let hidden = source("src/prelude.rs").contains("\n#[doc(hidden)]\npub use rest_of_1_0::*;\n");
    assert_eq!((names.pop().as_deref(), hidden, names.contains(&"*".to_string())), (Some("*"), true, false));
    assert!(names.len() <= 60, "{} names; most plugins do not need all of {names:?}", names.len());
    let tvm = exported("src/tvm.rs");
    assert!(["BlockBuilder", "ExprMutator", "StmtVisitor"].iter().all(|name| tvm.iter().any(|tvm| tvm == name)));
    let both: Vec<&String> = names.iter().filter(|name| tvm.contains(name)).collect();
    assert!(both.is_empty(), "{both:?} are in `plugin_api::tvm`");
}

#[test]
fn metadata_says_what_the_source_declares() {
    let meta = meta("every_kind");
    assert_eq!(
        (meta.name.as_str(), meta.version.to_string()),
        ("passhost-plugin-api", env!("CARGO_PKG_VERSION").to_string())
    );
    assert_eq!((meta.api.to_string().as_str(), Ok(meta.fingerprint)), ("1.0.0", fingerprint(&meta.api)));
    let newest = self::meta("api_1_1");
    let own = (plugin_api::declare::declarations::API_VERSION, FINGERPRINT);
    assert_eq!((newest.api.to_string().as_str(), newest.fingerprint), own);
    assert!(meta.target.contains(std::env::consts::ARCH) && meta.rustc.starts_with("rustc "), "{meta:?}");
    let pass = &meta.passes[3];
    assert_eq!(
        (pass.name.as_str(), pass.opt_level, pass.traceable && pass.sequential),
        ("example.WithOptions", 3, true)
    );
    assert_eq!(pass.summary(), "Returns an error that lists the given options.");
    let required: Vec<_> = pass.required.iter().map(ToString::to_string).collect();
    assert_eq!(required, ["example.SameModule", "relax.Normalize (>=0.1)"]);
    assert_eq!(pass.contract.requires, ["relax.anf"]);
    assert_eq!(pass.contract.establishes, ["example.seen"]);
    assert_eq!(pass.contract.preserves, ["all"]);
    assert_eq!(pass.contract.invalidates, ["example.Other"]);
    assert_eq!(pass.tolerance, Tolerance::Precision { rtol: 0.01, atol: 0.001 });
    let options: Vec<_> = pass.options.iter().map(|o| format!("{}: {} = {:?}", o.name, o.ty, o.default)).collect();
    assert_eq!(options[3], r#"label: string = Some(Str("two\nlines, \"quoted\""))"#);
    assert_eq!(options[5], "axes: list of int = Some(List([Int(0), Int(-2)]))");
    assert_eq!(pass.options[6].ty, OptionType::FloatList);
    assert_eq!(pass.options[6].default, Some(OptionValue::List([].into())));
    assert_eq!(pass.options[1].doc.trim(), "A number.");
    let kinds: Vec<_> = meta.passes.iter().map(|pass| pass.granularity).take(3).collect();
    assert_eq!(kinds, [Granularity::Module, Granularity::Function, Granularity::DataflowBlock]);
    assert_eq!(meta.operators.len(), 2);
    assert_eq!((meta.operators[0].pure, meta.operators[1].pure), (true, false));
}

#[test]
fn metadata_survives_strip() {
    let file = library("smallest");
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    for options in [&["--strip-all"][..], &["--strip-unneeded", "--strip-debug"]] {
        let status = Command::new("strip").args(options).arg("-o").args([&stripped, &file]).status();
        assert!(status.expect("`strip` of binutils").success());
        assert_eq!(section(&stripped), section(&file));
        let data = std::fs::read(&stripped).unwrap();
        let object = object::File::parse(&*data).unwrap();
        let entry = object::NameOrOrdinal::Name(ENTRY_SYMBOL.as_bytes());
        assert!(object.exports().unwrap().any(|export| export.unwrap().name() == entry));
    }
}

#[test]
fn what_changes_nothing_gives_the_same_handle() {
    let (plugin, _) = open("every_kind");
    let module = module();
    with_current(&host(), 2, || {
        assert!(plugin.run_module(0, &module, &[]).unwrap().same(&module));
        let functions: Vec<_> = module.functions().collect();
        for pass in [1, 2] {
            let results = plugin.run_functions(pass, &functions, &[]);
            assert!(results.iter().zip(&functions).all(|(new, (_, old))| new.as_ref().unwrap().same(old)));
        }
        assert!(plugin.run_functions(1, &[], &[]).is_empty());
    });
    let (smallest, _) = open("smallest");
    assert!(smallest.run_functions(0, &[("f", &function())], &[])[0].is_ok());
}

#[test]
fn options_arrive_as_they_were_given() {
    let (plugin, meta) = open("every_kind");
    let (pass, mut options) = default_options(&meta, "example.WithOptions");
    let run = |options: &[OptionValue]| plugin.run_module(pass, &module(), options).unwrap_err().to_string();
    let told = run(&options);
    let expected =
        r#"Options { on: true, times: -1, rate: 0.5, label: "two\nlines, \"quoted\"", names: ["main", "a b"], "#;
    assert_eq!(told, format!("{expected}axes: [0, -2], rates: [], flags: [true, false] }}"));
    options[2] = OptionValue::Float(f64::NAN);
    options[3] = OptionValue::Str("\n".into());
    assert!(run(&options).contains(r#"rate: NaN, label: "\n", names: ["main""#));
    options[1] = OptionValue::Bool(true);
    assert_eq!(run(&options), "option `times` is true; it must be a int");
    assert_eq!(run(&options[..1]), "the host passed 1 option values, but none for `times`");
    let (pass, options) = default_options(&meta, "example.SameModule");
    assert!(options.is_empty() && plugin.run_module(pass, &module(), &[]).is_ok());
}

#[test]
fn results_are_made_by_the_host() {
    let (plugin, meta) = open("every_kind");
    let (pass, _) = default_options(&meta, "example.Rebuild");
    let new = plugin.run_module(pass, &module(), &[]).unwrap();
    assert_eq!(new.len(), 3);
    let body = new.get("good").unwrap();
    assert_eq!(body.function().unwrap().result().unwrap().ty().to_owned(), Type::tensor([2], DType::F32));
}

#[test]
fn failures_are_told_for_each_function_and_panics_are_caught() {
    let (plugin, meta) = open("every_kind");
    let (pass, _) = default_options(&meta, "example.Fail");
    let module = module();
    let functions: Vec<_> = module.functions().collect();
    let run = |how: &str| {
        with_current(&host(), 2, || {
            let results = plugin.run_functions(pass, &functions, &[OptionValue::Str(how.into())]);
            assert!(results[2].as_ref().unwrap().same(module.get("good").unwrap()), "{how}");
            let texts = results[..2].iter().map(|result| result.as_ref().unwrap_err());
            texts.cloned().collect::<Vec<_>>()
        })
    };
    let errors = run("error");
    let RunFailure::Error(error) = &errors[1] else { panic!("{errors:?}") };
    assert_eq!((error.message.as_str(), error.node), ("`bad_too` is not liked", Some(0)));
    for (how, message) in [("text", "as text"), ("string", "as string bad"), ("number", "a payload that is not text")] {
        let RunFailure::Panic(text) = &run(how)[0] else { panic!("{how} does not panic") };
        assert!(text.starts_with(message) && text.contains("every_kind.rs:"), "{text}");
    }
    assert!(matches!(&run("drop")[0], RunFailure::Panic(_)));
    assert!(matches!(&run("else")[0], RunFailure::Error(_)));
    let wrong = plugin.run_module(pass, &module, &[]).unwrap_err();
    assert_eq!(wrong.to_string(), "the host ran the pass at a different granularity than declared");
    let wrong = plugin.run_functions(0, &functions, &[]);
    assert!(wrong.iter().all(|result| matches!(result, Err(RunFailure::Error(_)))));
}

#[test]
fn rules_of_operators_are_asked() {
    let (plugin, _) = open("every_kind");
    let body = function();
    let call = body.values().find_map(|value| value.as_call_to("example.identity")).unwrap();
    let inferred = plugin.infer(0, call).unwrap();
    assert_eq!(inferred, Inferred { ty: Type::tensor([2, 3], DType::F32), pure: true });
    let mut b = BodyBuilder::new();
    let (n, m) = (b.sym("n", DType::I64), b.sym("m", DType::I64));
    let dim = Dim::binary(PrimOp::Add, Dim::Var(m), Dim::Var(n));
    let symbolic = Type::tuple([Type::tensor([dim, Dim::from(2)], DType::F16), Type::shape(vec![Dim::Var(m)])]);
    let ty = b.ty(&symbolic);
    b.begin_function(0, AttrsId::NONE, None);
    let (x, op) = (b.param("x", ty), b.op("example.identity"));
    let y = b.call(op, &[x], AttrsId::NONE, ty, false, Some("y"));
    let answer = b.with(y, |y| plugin.infer(0, y.as_call().unwrap()));
    assert_eq!(answer.unwrap().ty, symbolic);
    let panic = plugin.infer(1, call).unwrap_err().to_string();
    assert!(panic.contains("panicked: no rule") && panic.contains("every_kind.rs:"), "{panic}");
    assert!(plugin.infer(7, call).is_err());
}

/// Collects log events of plugins.
struct Collect(&'static Mutex<Vec<LogEvent>>);

impl LogSink for Collect {
    fn enabled(&self, level: tracing::Level, _: &str) -> bool {
        level <= tracing::Level::INFO
    }
    fn log(&self, event: &LogEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[test]
fn a_pass_talks_with_its_host() {
    static EVENTS: Mutex<Vec<LogEvent>> = Mutex::new(Vec::new());
    set_log_sink(Box::new(Collect(&EVENTS)), tracing::level_filters::LevelFilter::DEBUG);
    let (plugin, meta) = open("every_kind");
    let (pass, _) = default_options(&meta, "example.Talk");
    let (host, module) = (host(), module());
    let failure = with_current(&host, 3, || plugin.run_module(pass, &module, &[])).unwrap_err();
    let RunFailure::Error(error) = failure else { panic!("{failure}") };
    assert_eq!(error.message, r#"target Some("llvm"), function None"#);
    assert_eq!(error.function.as_deref(), Some("bad"));
    // Another test panics on a plugin thread, which also adds an event; filter it out.
    let events: Vec<_> = EVENTS.lock().unwrap().iter().filter(|event| event.target == "every_kind").cloned().collect();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!((event.level, event.target.as_str()), (tracing::Level::INFO, "every_kind"));
    assert!(event.file.ends_with("every_kind.rs") && event.line > 0);
    assert_eq!(event.message, r#"asked Some(List([Str("a\nb"), Int(3)]))"#);
    let fields = [("level", "3"), ("pass", "\"example.Talk\"")].map(|(k, v)| (k.to_string(), v.to_string()));
    assert_eq!(event.fields, fields);
    let expected = (Some("bad".to_string()), Some(0), "<5 nodes>".to_string());
    assert_eq!(*host.told.borrow(), [expected]);
}

#[test]
fn diagnostics_name_the_function_of_the_batch() {
    let (plugin, meta) = open("every_kind");
    let (pass, _) = default_options(&meta, "example.CountBlocks");
    let (host, module) = (host(), module());
    let functions: Vec<_> = module.functions().collect();
    with_current(&host, 2, || plugin.run_functions(pass, &functions, &[]));
    let told = host.told.into_inner();
    let names: Vec<_> = told.iter().map(|(name, node, _)| (name.as_deref().unwrap(), node.unwrap())).collect();
    assert_eq!(names, [("bad", 2), ("bad_too", 2), ("good", 2)]);
}

#[test]
fn without_a_context_nothing_is_known() {
    assert_eq!(Ctx::current().opt_level(), 2);
    let (plugin, meta) = open("every_kind");
    let (pass, _) = default_options(&meta, "example.Talk");
    let failure = plugin.run_module(pass, &module(), &[]).unwrap_err();
    assert_eq!(failure.to_string(), "printing needs a host");
}

#[test]
fn a_context_that_is_kept_has_no_answers() {
    let (plugin, meta) = open("every_kind");
    let (pass, _) = default_options(&meta, "example.Keep");
    let run = || plugin.run_module(pass, &module(), &[]).unwrap_err().to_string();
    let told: Vec<_> = (3..5).map(|level| with_current(&host(), level, run)).collect();
    assert_eq!(told, ["(3, true) None Ok((2, false)) true", "(4, true) Some((3, false)) Ok((2, false)) true"]);
    assert_eq!(run(), "(2, false) Some((4, false)) Ok((2, false)) true");
}

#[test]
fn code_and_section_must_say_the_same() {
    let file = library("every_kind");
    let open = |change: fn(&mut PluginMeta)| {
        let mut meta = meta("every_kind");
        meta.digest = 0; // of other bytes
        change(&mut meta);
        // SAFETY: `symbol` returns the entry function of a library that is never unloaded.
        unsafe { OpenPlugin::open(symbol(&file), &meta) }.err().unwrap().to_string()
    };
    let text = open(|meta| meta.version.major = 7);
    let own = env!("CARGO_PKG_VERSION");
    let (_, rest) = own.split_once('.').unwrap();
    assert_eq!(text, format!("its code and its metadata section disagree on version: {own} and 7.{rest}"));
    assert!(open(|meta| meta.passes.swap(0, 1)).starts_with("its code and its metadata section disagree on "));
    assert!(open(|meta| meta.passes[0].opt_level = 3).ends_with("differ in the facts of pass `example.SameModule`"));
    assert!(open(|meta| drop(meta.operators.pop())).starts_with("its code and its metadata section disagree on "));
}
