//! A plugin as authors wrote it against plugin API 1.0. It uses every item of the prelude of 1.0, and each kind of
//! declaration. Do not change this file: it must compile, load and run as it is with every version 1.x.
#![forbid(unsafe_code)]

use plugin_api::metadata::{ArgKind, AttrType};
use plugin_api::prelude::*;
use plugin_api::schedule::Schedule;
use plugin_api::walk::functor::Results;

export_plugin! {
    passes: [TOUR, FOLD, FUSE, BLOCKS, TILE, EVALUATE, GROUP],
    operators: [SCALE],
    config: [LIMIT, NAMES],
    properties: [NO_IF],
    composites: [BOTH],
    instruments: [COUNTER],
}

declare_config! {
    /// How many.
    LIMIT: i64 = "frozen.limit" { default: 16, range: 0..=1024 }
}

declare_config! {
    /// Which functions.
    NAMES: Vec<String> = "frozen.names" {}
}

declare_property! {
    /// There is no If.
    NO_IF = "frozen.no_if" { check: no_if }
}

fn no_if(body: &Body, _: &Ctx) -> Result<(), PassError> {
    match body.values().find(|value| value.is_if()) {
        Some(value) => bail!(at value, "there is an If"),
        None => Ok(()),
    }
}

declare_composite! {
    /// Two of the passes.
    BOTH = "frozen.Both" { opt_level: 0, passes: ["frozen.Fold", "frozen.Fuse"] }
}

declare_instrument! {
    /// Counts passes.
    COUNTER = "frozen.Counter" {
        options: CounterOptions {
            /// So many may run.
            most: i64 in (1..) = 100,
        },
        new: Counter::new,
    }
}

struct Counter {
    left: i64,
}

impl Counter {
    fn new(options: &CounterOptions, _: &Ctx) -> Result<Counter, PassError> {
        Ok(Counter { left: options.most })
    }
}

impl PassInstrument for Counter {
    fn should_run(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<bool, PassError> {
        Ok(self.left > 0 || pass.granularity == Granularity::Composite)
    }

    fn run_before(&mut self, _: &Module, pass: &PassFacts<'_>) -> Result<(), PassError> {
        self.left -= 1;
        tracing::debug!(pass.opt_level, pass.position, "{} of {}", pass.name, pass.plugin);
        Ok(())
    }
}

const SCALE: OpDecl = OpDecl {
    name: "frozen.scale",
    doc: "Its argument, of another size.",
    args: &[ArgDecl { name: "data", kind: ArgKind::Tensor, ..ArgDecl::EMPTY }],
    attrs: &[AttrDecl { name: "by", ty: AttrType::Float, default: DefaultDecl::Float(1.0), ..AttrDecl::EMPTY }],
    infer: scale_type,
    legalize: Some(scale_function),
    ..OpDecl::EMPTY
};

fn scale_type(call: Call<'_>) -> Result<Type, InferError> {
    let arg: Ty<'_> = call.arg(0).ok_or_else(|| InferError::wrong("no argument"))?.ty();
    match arg.to_owned() {
        Type::Tensor(TensorType { dtype, ndim, shape: Some(shape), .. }) if ndim >= 0 => Ok(Type::tensor(shape, dtype)),
        other => Ok(other),
    }
}

fn scale_function(call: Call<'_>) -> Result<Legalized, InferError> {
    Legalized::argument(call.arg(0).ok_or_else(|| InferError::wrong("no argument"))?)
}

/// How many calls a function has.
struct Calls(usize);

impl Analysis for Calls {
    const NAME: &'static str = "frozen calls";

    fn compute(body: &Body) -> Calls {
        Calls(body.values().filter(|value| value.as_call().is_some()).count())
    }
}

#[derive(Default)]
struct Shapes {
    seen: usize,
    depth: usize,
}

impl<'a> ExprVisitor<'a> for Shapes {
    fn enter_region(&mut self, _: Value<'a>) -> Walk {
        Walk::Into
    }

    fn visit_binding(&mut self, _: Value<'a>) {
        self.seen += 1;
    }
}

impl<'a> ScopeVisitor<'a> for Shapes {
    fn enter(&mut self, scope: Scope<'a>) {
        self.depth += usize::from(matches!(scope, Scope::Branch(_)));
    }

    fn value(&mut self, _: Value<'a>) {
        self.seen += 1;
    }
}

#[derive(Default)]
struct Loops(usize);

impl<'a> StmtVisitor<'a> for Loops {
    fn visit_for(&mut self, _: Value<'a>, _: Value<'a>, _: Value<'a>, _: Value<'a>) {
        self.0 += 1;
    }
}

struct Depth;

impl<'a> ExprFunctor<'a> for Depth {
    type Output = usize;
    type Args = ();

    fn visit_default(&mut self, _: Value<'a>, parts: Results<'_, usize>, (): ()) -> usize {
        1 + parts.max().unwrap_or(0)
    }
}

declare_pass! {
    /// Asks everything that a pass can ask about a module, and reports how much there is.
    module pass TOUR = "frozen.Tour" {
        opt_level: 0,
        options: TourOptions {
            /// What to say at the end.
            word: String in ["done", "ready"] = "done",
        },
        preserves: ["all"],
        tolerance: Tolerance::Exact,
        run: tour,
    }
}

fn tour(module: &Module, options: &TourOptions, ctx: &Ctx) -> Result<Module, PassError> {
    let mut names = FreshNames::new(module.functions().map(|(name, _)| name));
    let limit: i64 = LIMIT.get(ctx);
    let wanted: Option<Vec<String>> = NAMES.get(ctx);
    for (name, body) in module.functions() {
        let fresh = names.fresh(name);
        let near: Vec<String> = nearest(&fresh, [name]);
        let seen = look(body, ctx)?;
        let diagnostics: Diagnostics<'_> = ctx.diagnostics().in_function(name);
        let text = format!("{seen} of {limit}{} {} {:?}", did_you_mean(&near), options.word, wanted.is_some());
        diagnostics.report(Severity::Remark, Some(body.root()), &text);
    }
    Ok(module.clone())
}

/// Everything that reads a function.
fn look(body: &Body, ctx: &Ctx) -> Result<usize, PassError> {
    let users: Users = body.users();
    let counts: UseCounts = body.use_counts();
    let regions: Regions<'_> = body.regions();
    let (mut shapes, mut loops, mut n) = (Shapes::default(), Loops::default(), 0);
    shapes.visit_body(body);
    visit_scopes(body, &mut shapes);
    loops.visit_body(body);
    post_order_visit(body, |_| n += 1);
    let (mut once, mut numbers, mut sets) = (ValueSet::new(body), ValueNumbers::new(), DisjointSets::of(body.len()));
    let mut uses: ValueMap<'_, usize> = ValueMap::new(body);
    let mut scoped: ScopedMap<Vec<u32>, usize> = ScopedMap::new();
    let mut open: OpenScopes<()> = OpenScopes::new();
    let memory = InPlace::of(body);
    for value in body.bindings() {
        open.go_to(value);
        once.insert(value);
        uses.insert(value, counts.of(value));
        scoped.insert(value_key(value, &|same| same), numbers.of(value, &|same| same) as usize);
        let form: ValueForm<'_> = value_form(value);
        n += form.values.len() + usize::from(users.only(value).is_some() && !memory.is_written(value));
        n += usize::from(regions.around(value).is_some()) + value.attrs().iter().map(attribute).sum::<usize>();
        n += kind_of(value) + Depth.visit_expr(value, ());
    }
    let kind: BodyKind = body.kind();
    let calls = ctx.analysis::<Calls>(body);
    Ok(n + shapes.seen + shapes.depth + loops.0 + calls.0 + sets.members().len() + usize::from(kind == BodyKind::Other))
}

fn attribute((_, attr): (&str, AttrView<'_>)) -> usize {
    match attr.to_owned() {
        Attr::Int(_) | Attr::Float(_) => 1,
        Attr::Str(text) => text.len(),
        _ => attr.as_dict().map_or(0, |dict: Dict<'_>| dict.iter().len()),
    }
}

fn kind_of(value: Value<'_>) -> usize {
    let of_function = value.as_function().map_or(0, |function: Function<'_>| function.params().count());
    let of_block = value.as_block().map_or(0, |block: Block<'_>| block.bindings().count());
    let of_constant = value.as_constant().map_or(0, |constant: Constant<'_>| constant.len());
    let of_expr = match value.view() {
        Expr::Call(call) => call.args().len(),
        Expr::Tuple(_) => 1,
        _ => 0,
    };
    let of_stmt = match value.stmt() {
        Some(Stmt::For { .. }) => 1,
        _ => 0,
    };
    let of_region = value.branches().map_or(0, |(then, _): (Region<'_>, Region<'_>)| then.bindings().count());
    of_function + of_block + of_constant + of_expr + of_stmt + of_region
}

declare_pass! {
    /// Replaces `relu(relu(x))` by `relu(x)`.
    function pass FOLD = "frozen.Fold" { opt_level: 0, run: fold }
}

struct Folder;

impl<'b> ExprMutator<'b> for Folder {
    fn visit_call(&mut self, call: Call<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let inner = call.op().filter(|op| *op == "relax.nn.relu").and_then(|op| call.arg(0)?.as_call_to(op));
        Ok(inner.map_or(Action::Keep, |inner| Action::Replace(rw.v(inner.value()))))
    }
}

fn fold(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let folded: Result<Body, PassError> = Folder.mutate(body);
    let unused: Result<Body, SealError> = remove_all_unused(&folded?);
    Ok(unused?)
}

declare_pass! {
    /// Matches one pattern of each kind, and replaces none.
    function pass FUSE = "frozen.Fuse" { opt_level: 0, run: fuse }
}

const SUM: Capture<Call> = Capture::new("sum");

fn patterns() -> Vec<Pattern> {
    let any = wildcard;
    vec![
        is_op("relax.add", [any(), any()]),
        is_commutative("relax.multiply", any(), is_scalar(1.0)),
        is_call(..),
        is_call_of_function(..),
        is_call_to("f", ..),
        is_call_tir(..),
        is_call_tir_of("f", ..),
        is_chain(any(), |step| is_op("relax.nn.relu", [step])),
        is_tuple([any(), is_const()]),
        is_tuple_get(is_param(), 0),
        is_op("relax.add", ..).bind(SUM),
    ]
}

fn fuse(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    for pattern in patterns() {
        let matcher: Matcher<'_> = ctx.matcher(&pattern);
        let kept = matcher.rewrite(body, |found: &Match<'_>, _| {
            found.try_get(SUM);
            Ok(Action::Keep)
        })?;
        if !kept.structural_eq(body) {
            bail!("a pattern changed the function");
        }
    }
    Ok(body.clone())
}

declare_pass! {
    /// Writes a call that nothing uses behind the first binding of each dataflow block.
    dataflow pass BLOCKS = "frozen.Blocks" { opt_level: 0, run: blocks }
}

fn blocks(edit: &mut Edit<'_>, block: Value<'_>, _: &Ctx) -> Result<(), PassError> {
    let first = block.region().bindings().next().ok_or_else(|| pass_error!(at block, "the block is empty"))?;
    let v = edit.v(first);
    add_call(edit, first, v);
    Ok(())
}

/// An operand is a value of the function, or one that was made.
fn add_call(edit: &mut Edit<'_>, at: Value<'_>, argument: impl Operand) {
    let argument: V = edit.resolve(argument);
    let ty: TypeId = edit.builder().type_of(argument);
    let callee = edit.builder().op("relax.nn.relu");
    let spec = NodeSpec::new(plugin_api::ir::records::kind::CALL).ty(ty).attrs(AttrsId::NONE);
    edit.after(at).node(spec, &[callee, argument], Some("unused"));
}

declare_pass! {
    /// Splits the first loop of the first block, if it can be split.
    prim_func pass TILE = "frozen.Tile" { opt_level: 0, run: tile }
}

struct Nothing;

impl<'b> StmtMutator<'b> for Nothing {}

fn tile(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    let body = Nothing.mutate(body)?;
    let simple = Analyzer::of_body(&body).simplify_body(&body)?;
    let Ok(mut schedule) = Schedule::new(&simple) else { return Ok(simple) };
    let Some(block) = schedule.blocks().first().map(|info| info.block) else { return Ok(simple) };
    if let Some(first) = schedule.get_loops(block)?.first() {
        schedule.split(*first, [None, Some(4)])?;
    }
    schedule.finish()
}

declare_pass! {
    /// Has every call with constant arguments evaluated, and says why one has no value.
    function pass EVALUATE = "frozen.Evaluate" { opt_level: 0, run: evaluate }
}

fn evaluate(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
    let limits = EvaluationLimits { work: 1_000_000, ..EvaluationLimits::default() };
    for call in body.bindings().filter_map(Value::as_call) {
        let evaluated: Result<Evaluated, EvaluationError> = ctx.evaluate_call(call, |_| None::<ConstantValue>, limits);
        match evaluated {
            Ok(evaluated) => ctx.statistic("work", evaluated.work as usize),
            Err(error) if error.reason == Reason::NotKnown => {}
            Err(error) => ctx.diagnostics().missed(call.value(), &error.to_string()),
        }
    }
    Ok(body.clone())
}

declare_pass! {
    /// Makes a function of the first binding of each function, and adds a function that is built from nothing.
    module pass GROUP = "frozen.Group" { opt_level: 0, run: group }
}

fn group(module: &Module, ctx: &Ctx) -> Result<Module, PassError> {
    let mut grouped = GroupedFunctions::new(module, Constants::Lifted);
    for (name, body) in module.functions() {
        let mut groups = Groups::new(body);
        groups.add(body.dataflow_blocks().filter_map(|block| block.bindings().next()).take(1), &[]);
        grouped.make(name, &groups)?;
    }
    let module = grouped.finish();
    let builder = BlockBuilder::over(&module, ctx as &dyn Infer);
    builder.add_func("halves", halves()?);
    builder.function("identity", |f: &FunctionBuilder<'_, '_>| {
        let x = f.param("x", Type::tensor([Dim::Int(4)], DType::F32));
        f.emit_func_output(x);
    });
    builder.get()
}

/// A function that returns constants of small floats.
fn halves() -> Result<Body, PassError> {
    let array: Result<Array, ConstantError> = Array::new(&[2], [F16::from_f32(0.5), F16::from_f32(2.0)]);
    let other = Array::new(&[1], [Bf16::from_f32(1.0)])?;
    let tensor: Tensor = Tensor::new(&1.0f32.to_le_bytes());
    let mut b = BodyBuilder::new();
    b.begin_function(0, AttrsId::NONE, None);
    let n: Sym = b.sym("n", DType::I64);
    let parts = [b.array(&array?), b.array(&other), b.constant(&tensor, &Type::tensor([1], DType::F32))];
    let of_n = b.ty(&Type::Shape { ndim: 1, dims: Some(vec![Dim::Var(n)]) });
    let shape = b.param("shape", of_n);
    let result = b.tuple(&[parts[0], parts[1], parts[2], shape], None);
    let ty = b.type_of(result);
    b.end_function(result, ty);
    Ok(b.finish()?)
}

/// What an operator's rule returns, and how a program asks for it.
#[allow(dead_code, reason = "it must compile; nothing in this plugin needs it")]
fn inferred(ctx: &Ctx, call: Call<'_>) -> Result<Inferred, PassError> {
    ctx.infer(call)
}
