//! Examples of everything that crosses as bytes, written by the real encoders. Tagged data may grow at the end
//! (`form`); all other data must not change (`bytes`).

use crate::PassError;
use crate::abi::entry::{FAILED, PANICKED, error_bytes, option_bytes, put_failure, read_error, read_failures};
use crate::abi::formats::{file_bytes, read_file};
use crate::abi::instrument::{facts_bytes, with_facts};
use crate::abi::log::{Text, describe};
use crate::declare::contributions::*;
use crate::declare::declarations::{Built, OptionDecl, PassDecl, PluginDecl, RunFn, write_default, write_plugin};
use crate::declare::formats::{FormatDecl, ReaderDecl, WriterDecl};
use crate::declare::instrument::PassFacts;
use crate::declare::range::RangeDecl;
use crate::ir::records::flag;
use crate::ir::storage::sections::bytes_of;
use crate::ir::storage::tensor::Tensor;
use crate::ir::*;
use crate::metadata::wire::{Fields, MAGIC, Writer, put_field, read_value, tag, value_bytes};
use crate::metadata::*;
use crate::scalar::PrimOp;
use crate::services::evaluation::{Evaluated, EvaluationError, Reason, decode_evaluation, encode_evaluation};
use crate::services::inferred::{decode_inferred, encode_inferred};
use crate::services::{NO_NODE, Sink, function_key, read_function_key};
use crate::typing::legalized::{Legalized, LegalizedArg, decode_legalized, encode_legalized};
use crate::typing::operators::{ArgDecl, AttrDecl, DefaultDecl, InferError, Inferred, OpDecl};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

pub(super) fn all(text: &mut String) {
    values(text);
    metadata(text);
    instruments(text);
    files(text);
    answers(text);
    errors(text);
    logs(text);
    tables(text);
}

/// A new variant is a compile error here, because it needs an example below. `lang/src/typing/variants.rs` lists
/// the types that may grow.
const _: fn(&OptionValue) = |value| match value {
    OptionValue::Bool(_) | OptionValue::Int(_) | OptionValue::Float(_) | OptionValue::Str(_) => {}
    OptionValue::List(_) => {}
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &mut String, name: &str, bytes: &[u8]) {
    text.push_str(&format!("bytes {name} = {}\n", hex(bytes)));
}

/// Writes the fields of a record in order, followed by the fields of nested records under the names of these
/// records.
fn form(text: &mut String, name: &str, bytes: &[u8], inside: fn(u16) -> Option<&'static str>) {
    let mut rest: Vec<(String, &[u8])> = Vec::new();
    for (at, field) in Fields::new(bytes).enumerate() {
        let (tag, content) = field.expect("a field");
        let content = match inside(tag) {
            None => hex(content),
            Some(what) => {
                let inner = format!("{name}.{what}");
                let n = rest.iter().filter(|(other, _)| other.trim_end_matches(|c: char| c.is_ascii_digit()) == inner);
                let inner = format!("{inner}{}", n.count());
                rest.push((inner.clone(), content));
                format!("({inner})")
            }
        };
        text.push_str(format!("form {name}.{at} = {tag} {content}").trim_end());
        text.push('\n');
    }
    rest.iter().for_each(|(inner, bytes)| form(text, inner, bytes, inside));
}

fn no_records(_: u16) -> Option<&'static str> {
    None
}

fn values(text: &mut String) {
    let mut field = Vec::new();
    put_field(&mut field, 0x0102, b"abc");
    bytes(text, "field", &field);
    let items = vec![OptionValue::Int(-2), OptionValue::List([OptionValue::Str("x".to_string())].into())];
    let values = [
        ("Bool", OptionValue::Bool(true)),
        ("Int", OptionValue::Int(-0x0102_0304_0506_0708)),
        ("Float", OptionValue::Float(-1.5)),
        ("Str", OptionValue::Str("é".to_string())),
        ("List", OptionValue::List(items.into())),
    ];
    for (name, value) in &values {
        let written = value_bytes(value);
        bytes(text, &format!("value.{name}"), &written);
        assert_eq!(read_value(&written).as_ref(), Some(value));
    }
    let defaults = [
        ("Required", DefaultDecl::Required),
        ("None", DefaultDecl::None),
        ("Bool", DefaultDecl::Bool(true)),
        ("Int", DefaultDecl::Int(-2)),
        ("Float", DefaultDecl::Float(0.25)),
        ("Str", DefaultDecl::Str("x")),
        ("Ints", DefaultDecl::Ints(&[1, -1])),
        ("Floats", DefaultDecl::Floats(&[1.0])),
        ("Strs", DefaultDecl::Strs(&["a", "bc"])),
        ("Bools", DefaultDecl::Bools(&[true, false])),
        ("SameAs", DefaultDecl::SameAs("x")),
    ];
    for (name, default) in &defaults {
        let mut w = Writer::<64>::new();
        write_default(&mut w, default);
        let len = w.len();
        let written = Writer::<64>::finish(filled(w));
        bytes(text, &format!("default.{name}"), &written[..len]);
        let read = Fields::new(&written[..len]).next().and_then(|field| read_value(field.ok()?.1));
        assert_eq!(read, default.value(), "{name}");
    }
    let options = option_bytes(&[OptionValue::Bool(false), OptionValue::Int(7)]);
    bytes(text, "options", &options);
}

/// Pads the bytes with zeros.
fn filled(mut w: Writer<64>) -> Writer<64> {
    while w.len() < 64 {
        w.byte(0);
    }
    w
}

const BUILT: Built = Built { api: "0.0.0", fingerprint: 0x0102_0304_0506_0708, target: "t", rustc: "r" };

const fn option(name: &'static str, ty: OptionType, default: DefaultDecl) -> OptionDecl {
    OptionDecl { name, ty, default, range: RangeDecl::Any, doc: " d" }
}

const fn pass(name: &'static str, run: RunFn) -> PassDecl {
    PassDecl {
        name,
        doc: " d",
        opt_level: -3,
        traceable: true,
        sequential: true,
        required: &["t.A", "t.B (>= 0.2)"],
        requires: &["t.q"],
        establishes: &["t.e"],
        preserves: &["t.p"],
        invalidates: &["t.i"],
        tolerance: Tolerance::Reassociated { rtol: 0.5, atol: 0.25 },
        options: &[],
        run,
    }
}

static OPTIONS: &[OptionDecl] = &[
    option("b", OptionType::Bool, DefaultDecl::Bool(true)),
    option("i", OptionType::Int, DefaultDecl::Int(1)),
    option("f", OptionType::Float, DefaultDecl::Float(1.0)),
    option("s", OptionType::Str, DefaultDecl::Str("x")),
    option("bs", OptionType::BoolList, DefaultDecl::Bools(&[true])),
    option("is", OptionType::IntList, DefaultDecl::Ints(&[1])),
    option("fs", OptionType::FloatList, DefaultDecl::Floats(&[1.0])),
    option("ss", OptionType::StrList, DefaultDecl::Required),
];

static PASSES: &[&PassDecl] = &[
    &PassDecl { options: OPTIONS, ..pass("t.M", RunFn::Module(|module, _, _| Ok(module.clone()))) },
    &pass("t.F", RunFn::Function(|_, _| {})),
    &pass("t.D", RunFn::DataflowBlock(|_, _| {})),
    &pass("t.P", RunFn::PrimFunc(|_, _| {})),
];

const fn arg(name: &'static str, kind: ArgKind) -> ArgDecl {
    ArgDecl { name, kind, optional: true }
}

const fn attr(name: &'static str, ty: AttrType, default: DefaultDecl) -> AttrDecl {
    AttrDecl { name, ty, default, by_name: false }
}

static OPERATORS: &[OpDecl] = &[OpDecl {
    name: "t.o",
    args: &[
        arg("a", ArgKind::Any),
        arg("t", ArgKind::Tensor),
        arg("u", ArgKind::Tuple),
        arg("s", ArgKind::Shape),
        arg("p", ArgKind::Prim),
        ArgDecl { name: "f", kind: ArgKind::Function, optional: false },
    ],
    attrs: &[
        attr("b", AttrType::Bool, DefaultDecl::Bool(true)),
        attr("i", AttrType::Int, DefaultDecl::Int(1)),
        attr("f", AttrType::Float, DefaultDecl::Float(1.0)),
        attr("s", AttrType::Str, DefaultDecl::Str("x")),
        attr("is", AttrType::IntList, DefaultDecl::Ints(&[1])),
        attr("d", AttrType::DType, DefaultDecl::None),
        attr("oi", AttrType::OptInt, DefaultDecl::None),
        attr("ois", AttrType::OptIntList, DefaultDecl::None),
        attr("any", AttrType::Any, DefaultDecl::Required),
        attr("os", AttrType::OptStr, DefaultDecl::None),
        attr("ri", AttrType::RepeatedInts, DefaultDecl::Ints(&[1, 1])),
        attr("so", AttrType::OptStr, DefaultDecl::SameAs("s")),
        AttrDecl { by_name: true, ..attr("bn", AttrType::Int, DefaultDecl::Required) },
    ],
    pure: true,
    doc: " d",
    infer: |_| Ok(Type::Object),
    legalize: None,
}];

const fn config(name: &'static str, ty: OptionType, default: DefaultDecl, range: RangeDecl) -> ConfigDecl {
    ConfigDecl { name, doc: " d", ty, default, range }
}

static MORE: Contributions = Contributions {
    config: &[
        &config("t.i", OptionType::Int, DefaultDecl::Int(1), RangeDecl::Int(Some(-1), Some(2))),
        &config("t.f", OptionType::Float, DefaultDecl::None, RangeDecl::Float(Some(-1.0), Some(2.0))),
        &config("t.s", OptionType::Str, DefaultDecl::Str("x"), RangeDecl::Any),
    ],
    properties: &[
        &PropertyDecl { name: "t.p", doc: " d", check: Some(|_, _| Ok(())) },
        &PropertyDecl { name: "t.q", doc: " d", check: None },
    ],
    composites: &[&CompositeDecl {
        name: "t.C",
        doc: " d",
        opt_level: 2,
        required: &["t.A"],
        passes: &["t.F", "t.M{i=2}"],
    }],
    instruments: &[&InstrumentDecl {
        name: "t.I",
        doc: " d",
        options: &[OptionDecl {
            range: RangeDecl::OneOf(DefaultDecl::Ints(&[1, 2])),
            ..option("i", OptionType::Int, DefaultDecl::Int(1))
        }],
        new: |_, _| Err(PassError::new("is never made")),
    }],
    readers: &[&ReaderDecl {
        format: FormatDecl {
            name: "f",
            doc: " d",
            extensions: &["e", "x"],
            options: &[option("i", OptionType::Int, DefaultDecl::Int(1))],
            example: "a",
        },
        begins: &[b"b"],
        read: |_, _, _| Err(PassError::new("reads nothing")),
    }],
    writers: &[&WriterDecl {
        format: FormatDecl { name: "g", doc: " d", extensions: &["e"], options: &[], example: "" },
        write: |_, _, _, _| Ok(()),
    }],
};

static PLUGIN: PluginDecl =
    PluginDecl { name: "p", version: "1.2.3", passes: PASSES, operators: OPERATORS, more: MORE };

fn metadata(text: &mut String) {
    const MOST: usize = 4096;
    let mut w = Writer::<MOST>::new();
    write_plugin(&mut w, &PLUGIN, &BUILT);
    let len = w.len();
    while w.len() < MOST {
        w.byte(0);
    }
    let block = w.finish();
    // Start, format, tag; then the length.
    bytes(text, "metadata", &block[..MAGIC.len() + 4]);
    let inside = |tag| {
        Some(match tag {
            tag::PASS => "pass",
            tag::OPERATOR => "operator",
            tag::CONFIG => "config",
            tag::PROPERTY => "property",
            tag::COMPOSITE => "composite",
            tag::INSTRUMENT => "instrument",
            tag::READER => "reader",
            tag::WRITER => "writer",
            tag::OPTION => "option",
            tag::ARG => "arg",
            tag::ATTR => "attr",
            _ => return None,
        })
    };
    form(text, "metadata", &block[MAGIC.len() + 8..len], inside);

    let read = PluginMeta::decode(&block[..len]).expect("can be read");
    assert_eq!((read.fingerprint, read.target.as_str(), read.rustc.as_str()), (BUILT.fingerprint, "t", "r"));
    for (pass, decl) in read.passes.iter().zip(PASSES) {
        assert_eq!((pass.name.as_str(), pass.granularity), (decl.name, decl.run.granularity()));
    }
    let types = |options: &[OptionInfo]| options.iter().map(|option| option.ty).collect::<Vec<_>>();
    assert_eq!(types(&read.passes[0].options), OPTIONS.iter().map(|option| option.ty).collect::<Vec<_>>());
    let (operator, decl) = (&read.operators[0], &OPERATORS[0]);
    assert!(operator.args.iter().zip(decl.args).all(|(arg, decl)| arg.kind == decl.kind));
    assert!(operator.attrs.iter().zip(decl.attrs).all(|(attr, decl)| attr.ty == decl.ty));
    let (from, to) = (OptionValue::Float(-1.0), OptionValue::Float(2.0));
    assert_eq!(read.config[1].allowed, Allowed::Range(Some(from), Some(to)));
    assert_eq!(read.instruments[0].options[0].allowed, Allowed::OneOf(vec![OptionValue::Int(1), OptionValue::Int(2)]));
}

fn files(text: &mut String) {
    let written = file_bytes("m.x", Some(Path::new("/m.x")));
    form(text, "file", &written, no_records);
    assert_eq!(read_file(&written), ("m.x", Some(Path::new("/m.x"))));
    assert_eq!(read_file(&file_bytes("<stdin>", None)), ("<stdin>", None));
}

fn instruments(text: &mut String) {
    let version = "t.B (>= 0.2)";
    let required = ["t.A", version].map(|entry| Required::parse(entry).expect("an entry"));
    let granularity = Granularity::PrimFunc;
    let pass = PassFacts { name: "t.C", opt_level: -3, granularity, required: &required, plugin: "p", position: 7 };
    let mut facts = facts_bytes(&pass);
    put_field(&mut facts, crate::abi::instrument::field::MESSAGE, b"why");
    form(text, "event", &facts, no_records);
    with_facts(&facts, |read, message| assert_eq!((read, message), (&pass, "why")));
}

/// Writes a legalization: its arguments, symbols and name; the PrimFunc crosses as a handle.
fn legalizations(text: &mut String) {
    let (body, n) = {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let n = b.sym("n", DType::I64);
        let ty = b.ty(&Type::tensor([Dim::Var(n)], DType::F32));
        let tuple = b.ty(&Type::tuple([Type::Object]));
        let (x, t, op) = (b.param("x", ty), b.param("t", tuple), b.op("t.op"));
        b.begin_block();
        let y = b.call(op, &[x, t], AttrsId::NONE, ty, false, Some("y"));
        b.end();
        b.end_function(y, ty);
        (b.finish().expect("a body"), n)
    };
    let call = body.bindings().find_map(|value| value.as_call()).expect("a call");
    let (x, t) = (call.arg(0).expect("x"), call.arg(1).expect("t"));
    let args = vec![LegalizedArg::of(x), LegalizedArg::element(t, 0)];
    let variables = vec![(n, Sym { id: 3, dtype: DType::I64 })];
    let answer = Legalized::new("op", body.clone(), args, vec![n], variables);
    let written = encode_legalized(&answer);
    bytes(text, "legalized", &written);
    let read = decode_legalized(&written, body.clone(), call).expect("what was written");
    assert_eq!((read.name, read.args, read.symbols), (answer.name, answer.args, answer.symbols));
    assert_eq!(read.variables, answer.variables);
}

/// Writes the answer to an evaluation; its result crosses as a handle.
fn evaluations(text: &mut String) {
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let shape = b.shape(&[Dim::Int(2)]);
    let ty = b.type_of(shape);
    b.end_function(shape, ty);
    let function = b.finish().expect("a body");
    let (status, written) = encode_evaluation(&Ok(Evaluated { function: function.clone(), work: 7 }));
    text.push_str(&format!("bytes evaluated.result = {status} {}\n", hex(&written)));
    let read = decode_evaluation(status, &written, Some(function.clone())).expect("a result");
    assert_eq!((read.work, read.function.same(&function)), (7, true));
    let place = (Some("f".to_string()), Some("B[0] = 1".to_string()));
    let error =
        EvaluationError { function: place.0, statement: place.1, ..EvaluationError::new(Reason::OutOfBounds, "why") };
    for (name, error) in [("placed", error), ("error", EvaluationError::new(Reason::Wrong, "why"))] {
        let (status, written) = encode_evaluation(&Err(error.clone()));
        text.push_str(&format!("bytes evaluated.{name} = {status} {}\n", hex(&written)));
        assert_eq!(decode_evaluation(status, &written, None).err(), Some(error));
    }
    assert!(decode_evaluation(0, &written, None).is_err(), "a result without its function");
}

fn answers(text: &mut String) {
    legalizations(text);
    evaluations(text);
    let mut put = |name: &str, answer: Result<Inferred, InferError>| {
        let (status, written) = encode_inferred(&answer);
        text.push_str(&format!("bytes inferred.{name} = {status} {}\n", hex(&written)));
        assert_eq!(decode_inferred(status, &written), answer, "{name}");
    };
    put("pure", Ok(Inferred { ty: Type::Object, pure: true }));
    put("impure", Ok(Inferred { ty: Type::tuple([Type::tensor(vec![Dim::Int(4)], DType::F32)]), pure: false }));
    put("wrong", Err(InferError::wrong("why")));
    let near = vec!["a".to_string(), "b".to_string()];
    put("unknown", Err(InferError::UnknownOp { name: "x".to_string(), near }));
    put("panicked", Err(InferError::Panicked("why".to_string())));
    put("no host", Err(InferError::NoHost("x".to_string())));
}

fn errors(text: &mut String) {
    let mut whole = PassError::new("why").in_function("main");
    whole.node = Some(0x0102);
    for (name, error) in [("error", whole), ("error without place", PassError::new("why"))] {
        let written = error_bytes(&error);
        bytes(text, name, &written);
        assert_eq!(read_error(&written), error);
    }
    assert_eq!(NO_NODE, u64::MAX);
    let ((), failures) = Sink::to(|sink| {
        put_failure(sink, 0x0102, FAILED, b"why");
        put_failure(sink, 3, PANICKED, b"");
    });
    bytes(text, "failures", &failures);
    assert_eq!(read_failures(&failures), [(0x0102, FAILED, &b"why"[..]), (3, PANICKED, &b""[..])]);
    let key = function_key(0x0102_0304);
    bytes(text, "query of a function", &key);
    assert_eq!(read_function_key(&key), Some(0x0102_0304));
}

/// Keeps the encoded event and span as a plugin would send them.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<Vec<u8>>>>);

impl Subscriber for Sent {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut values = Text::default();
        span.record(&mut values);
        // SAFETY: the bytes live during the call.
        let keep = |record: &crate::services::SpanRecord| unsafe { record.fields.get().to_vec() };
        let fields = describe(span.metadata(), 0, values.fields, keep);
        self.0.lock().expect("one thread").push(fields);
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut values = Text { event: true, ..Text::default() };
        event.record(&mut values);
        assert_eq!(values.message, "said");
        self.0.lock().expect("one thread").push(values.fields);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn logs(text: &mut String) {
    let sent = Sent::default();
    tracing::subscriber::with_default(sent.clone(), || {
        tracing::info!(n = 7, word = "x", "said");
        let _span = tracing::info_span!("work", n = 7, later = tracing::field::Empty);
    });
    let sent = sent.0.lock().expect("one thread");
    bytes(text, "fields of an event", &sent[0]);
    bytes(text, "fields of a span", &sent[1]);
    let (values, names) = crate::abi::host::log::fields(&sent[1]);
    assert_eq!((values, names), (vec![("n".into(), "7".into())], vec!["n".into(), "later".into()]));
}

/// Writes every filled table of a builder, section by section.
fn sections(text: &mut String, name: &str, b: &BodyBuilder) {
    let raw = b.raw();
    let parts = [
        ("nodes", bytes_of(raw.nodes())),
        ("operands", bytes_of(raw.operands())),
        ("leaves", bytes_of(raw.leaves())),
        ("types", bytes_of(raw.types())),
        ("lists", bytes_of(raw.lists())),
        ("prims", bytes_of(raw.prims())),
        ("strs", bytes_of(raw.strs())),
        ("str_bytes", raw.str_bytes()),
        ("dicts", bytes_of(raw.dicts())),
        ("attrs", bytes_of(raw.attrs())),
        ("consts", bytes_of(raw.consts())),
        ("buffers", bytes_of(raw.buffers())),
        ("names", bytes_of(raw.names())),
        ("name_bytes", raw.name_bytes()),
        ("var_names", bytes_of(raw.var_names())),
    ];
    let parts = parts.iter().filter(|(_, bytes)| !bytes.is_empty());
    let parts: Vec<String> = parts.map(|(name, bytes)| format!("{name} {}", hex(bytes))).collect();
    text.push_str(&format!("bytes {name} = {}\n", parts.join(", ")));
}

/// Writes the layout of types, dimensions, attributes, leaves and names in the tables of a body. Each is in a
/// separate body, so that their order does not matter.
fn tables(text: &mut String) {
    for name in ["void", "bool", "handle", "int8", "uint16", "float32", "bfloat16", "float16x4", "int32xvscalex4"] {
        let dtype: DType = name.parse().expect("a data type");
        bytes(text, &format!("dtype.{name}"), &dtype.0.to_le_bytes());
    }
    for narrow in DType::all().iter().filter(|row| row.dtype.code() >= 7) {
        bytes(text, &format!("dtype.{}", narrow.name), &narrow.dtype.0.to_le_bytes());
    }
    each_type(text);
    each_attr(text);
    each_leaf(text);
    let mut b = BodyBuilder::new();
    b.begin_function(flag::PRIVATE, AttrsId::NONE, Some("f"));
    let ty = b.ty(&Type::Object);
    let x = b.param("é", ty);
    b.end_function(x, ty);
    sections(text, "function", &b);
    let hash = b.finish().expect("a function").structural_hash();
    bytes(text, "hash of that function", &hash.to_le_bytes());
}

fn each_type(text: &mut String) {
    let n = |b: &mut BodyBuilder| Dim::Var(b.sym("n", DType::I64));
    let mut put = |name: &str, ty: &dyn Fn(&mut BodyBuilder) -> Type| {
        let mut b = BodyBuilder::new();
        let ty = ty(&mut b);
        let id = b.ty(&ty);
        sections(text, &format!("type.{name}"), &b);
        assert_eq!(b.type_owned(id), ty, "{name}");
    };
    put("Object", &|_| Type::Object);
    put("Prim", &|_| Type::Prim { dtype: DType::I64, value: Some(Dim::Int(-0x0102_0304_0506_0708)) });
    put("Shape", &|b| Type::Shape { ndim: 1, dims: Some(vec![n(b)]) });
    put("Shape of any", &|_| Type::Shape { ndim: -1, dims: None });
    let tensor = TensorType { dtype: DType::F32, ndim: 1, shape: Some(vec![Dim::Int(4)]), vdevice: Some(1) };
    put("Tensor", &|_| Type::Tensor(tensor.clone()));
    put("Tuple", &|_| Type::tuple([Type::Object]));
    put("Callable", &|_| Type::callable(Some(vec![]), Type::Object, false));
    put("Callable of any", &|_| Type::callable(None, Type::Object, true));
    put("DTensor", &|_| Type::DTensor(DTensorType { tensor: tensor.clone(), mesh: 1, placement: vec![Some(0), None] }));
    put("Buffer", &|b| Type::Buffer(BufferType::new(vec![n(b)], DType::F32)));
    put("Buffer with all", &|_| {
        let (strides, elem_offset) = (vec![Dim::Int(2)], Some(Dim::Int(3)));
        let (scope, align, offset_factor) = ("shared".to_string(), 128, 4);
        let compact = BufferType::new(vec![Dim::Int(4)], DType::F32);
        Type::Buffer(BufferType { strides, elem_offset, scope, align, offset_factor, tiled: true, ..compact })
    });
    put("Pointer", &|_| Type::Pointer { dtype: DType::F32, scope: "shared".to_string() });
    let dim = |expr: DimExpr| Type::Shape { ndim: 1, dims: Some(vec![Dim::Expr(Arc::new(expr))]) };
    put("Int", &|_| dim(DimExpr::Int(-2, DType::I32)));
    put("Float", &|_| dim(DimExpr::Float(1.5f64.to_bits(), DType::F32)));
    put("Binary", &|b| dim(DimExpr::Binary(PrimOp::Mul, DType::I64, n(b), Dim::Int(2))));
    put("Unary", &|b| dim(DimExpr::Unary(PrimOp::Cast, DType::I32, n(b))));
}

fn each_attr(text: &mut String) {
    let tensor = Tensor::new(&[1, 2, 3, 4]);
    let scalar = Type::tensor(Vec::<Dim>::new(), DType::F32);
    let keyed = vec![(None, Attr::Int(1)), (Some("k".to_string()), Attr::Int(2))];
    let attrs = [
        ("None", Attr::None),
        ("Bool", Attr::Bool(true)),
        ("Int", Attr::Int(-2)),
        ("Float", Attr::Float(1.5)),
        ("Str", Attr::Str("x".to_string())),
        ("DType", Attr::DType(DType::F32)),
        ("Type", Attr::Type(Type::Object)),
        ("Dim", Attr::Dim(Dim::Int(4))),
        ("Tensor", Attr::Tensor(tensor, scalar)),
        ("List", Attr::list([Attr::Int(1), Attr::Int(2)])),
        ("Dict", Attr::dict([("a".to_string(), Attr::Int(1))])),
        ("Object", Attr::Object("O".to_string(), keyed.into())),
    ];
    for (name, attr) in attrs {
        let mut b = BodyBuilder::new();
        b.attrs([("key", attr)]);
        sections(text, &format!("attr.{name}"), &b);
    }
}

fn each_leaf(text: &mut String) {
    let mut put = |name: &str, leaf: &dyn Fn(&mut BodyBuilder) -> V| {
        let mut b = BodyBuilder::new();
        leaf(&mut b);
        sections(text, &format!("leaf.{name}"), &b);
    };
    put("op", &|b| b.op("relax.add"));
    put("global_var", &|b| b.global_var("f", TypeId::NONE));
    put("extern_func", &|b| b.extern_func("f", TypeId::NONE));
    put("constant", &|b| b.constant(&Tensor::new(&[1, 2, 3, 4]), &Type::tensor(Vec::<Dim>::new(), DType::F32)));
    put("shape", &|b| b.shape(&[Dim::Int(4), Dim::Int(5)]));
    put("prim_value", &|b| b.prim_value(&Dim::Int(4)));
    put("scalar", &|b| b.scalar(&Dim::Int(4)));
    put("string", &|b| b.string("x"));
    put("dtype", &|b| b.dtype(DType::F32));
    put("type_arg", &|b| {
        let ty = b.ty(&Type::Object);
        b.type_arg(ty)
    });
}
