//! Tests the contracts of some standard passes: the correct result validates as the same, and a wrong result does not.

use passhost::run::validate::Verdict;
use passhost_tests::engine;
use passhost_tests::validation;
use plugin_api::prelude::Module;

fn read(text: &str) -> Module {
    script::read(text, engine()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Returns the module after a pass, and the verdict on the pass.
fn validated(passes: &str, module: &Module) -> (Module, Verdict) {
    let (steps, error) = validation::steps(engine(), passes, module).expect("a plan");
    let step = steps.last().unwrap_or_else(|| panic!("{error:?}"));
    (step.after.clone(), validation::verdict(engine(), step, 1))
}

/// Returns the verdict on a pass that turns the module of one text into the module of another, in which the first `old` is
/// replaced.
fn of_other_text(pass: &str, text: &str, old: &str, new: &str) -> Verdict {
    let other = read(&text.replacen(old, new, 1));
    let step = validation::step(engine(), pass, &read(text), &other).expect("a pass");
    validation::verdict(engine(), &step, 1)
}

/// Returns the verdict on a modified result of a pass, in which a piece of text is replaced.
fn with_other_text(pass: &str, module: &Module, after: &Module, old: &str, new: &str) -> Verdict {
    let text = script::print(after, engine()).expect("a text");
    assert!(text.contains(old), "{text}");
    let step = validation::step(engine(), pass, module, &read(&text.replace(old, new))).expect("a pass");
    validation::verdict(engine(), &step, 1)
}

/// One batch normalization in both modes.
const NORMALIZED: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 3, 4), "float32"), g: R.Tensor((3,), "float32"), b: R.Tensor((3,), "float32"), m: R.Tensor((3,), "float32"), s: R.Tensor((3,), "float32")):
        with R.dataflow():
            t = R.nn.batch_norm(x, g, b, m, s, axis=1, epsilon=0.25, training=True)
            y = t[0]
            u = R.nn.batch_norm(y, g, b, m, s, axis=1, epsilon=0.25, training=False)
            gv = (u[0], u[1], t[1], t[2])
            R.output(gv)
        return gv
"#;

#[test]
fn normalizations_become_those_of_one_mode() {
    let module = read(NORMALIZED);
    for pass in ["relax.DecomposeOpsForInference", "relax.DecomposeOpsForTraining"] {
        let (after, verdict) = validated(pass, &module);
        assert!(matches!(&verdict, Verdict::Same(same) if same.inputs > 2), "{pass}: {verdict:?}");
        let verdict = with_other_text(pass, &module, &after, "R.const(0.25", "R.const(0.5");
        assert!(matches!(&verdict, Verdict::Different(_)), "{pass}: {verdict:?}");
    }
}

const SYMBOLIC: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("m", 4), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.concat((x, y), axis=0)
            gv = R.sum(a, axis=[0])
            R.output(gv)
        return gv
"#;

#[test]
fn a_specialized_function_is_compared_for_what_it_takes() {
    let module = read(SYMBOLIC);
    let (after, verdict) = validated(r#"relax.BindSymbolicVars{binding_map=["n=16"]}"#, &module);
    assert!(matches!(&verdict, Verdict::Same(same) if same.inputs > 2), "{verdict:?}");
    let verdict = with_other_text("relax.BindSymbolicVars", &module, &after, "(x, y)", "(x, x)");
    assert!(matches!(&verdict, Verdict::Different(_)), "{verdict:?}");
}

const MATCHED: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("m",), "float32")):
        m = T.int64()
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n,), "float32"))
        z = R.add(y, y)
        return z
"#;

#[test]
fn an_input_that_a_specialized_function_refuses_is_not_compared() {
    let module = read(MATCHED);
    let (_, verdict) = validated(r#"relax.BindSymbolicVars{binding_map=["n=8"]}"#, &module);
    assert!(matches!(&verdict, Verdict::Same(_)), "some inputs have 8 elements: {verdict:?}");
    let (_, verdict) = validated(r#"relax.BindSymbolicVars{binding_map=["n=5000"]}"#, &module);
    let Verdict::NotValidated { why } = &verdict else { panic!("{verdict:?}") };
    assert!(why.contains("none of the inputs can be executed after the pass"), "{why}");
}

/// Parameters whose types are partially unknown.
const OPEN: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(o: R.Object, x: R.Tensor(dtype="float32", ndim=2), s: R.Shape(ndim=2)):
        with R.dataflow():
            y = R.add(x, x)
            dead = R.multiply(x, x)
            z = R.reshape(y, s)
            R.output(z)
        return (o, z)
"#;

/// Buffers with computed extents.
const COMPUTED: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (T.max(n // T.int64(2), T.int64(3)),), "float32")
        for i in range(T.max(n // T.int64(2), T.int64(3))):
            with T.sblock("b"):
                v = T.axis.spatial(T.max(n // T.int64(2), T.int64(3)), i)
                Y[v] = T.float32(2)
"#;

#[test]
fn there_are_inputs_for_types_that_say_little() {
    for (pass, text) in [("relax.DeadCodeElimination", OPEN), ("s_tir.ConvertBlocksToOpaque", COMPUTED)] {
        let (_, verdict) = validated(pass, &read(text));
        assert!(matches!(&verdict, Verdict::Same(same) if same.inputs > 1), "{pass}: {verdict:?}");
    }
}

/// Two kernels and a function that calls both; `T.sblock` annotations and function attributes do not affect values.
const KERNELS: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                y[v] = x[v] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def negative(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.sblock("b"):
                v = T.axis.spatial(T.int64(4), i)
                y[v] = x[v] * T.float32(-1)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.negative, (a,), out_ty=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv
"#;

#[test]
fn a_function_of_which_only_attributes_changed_is_not_executed() {
    let module = read(KERNELS);
    let (after, verdict) = validated("relax.AnnotateTIROpPattern", &module);
    assert!(!module.structural_eq(&after), "the pass adds attributes");
    assert_eq!(verdict, Verdict::Unchanged);
    // If one kernel changes, only that function is executed.
    let executed = |old: &str, new: &str| {
        let verdict = with_other_text("s_tir.ConvertBlocksToOpaque", &module, &after, old, new);
        let Verdict::Same(same) = &verdict else { panic!("{verdict:?}") };
        same.functions
    };
    assert_eq!(executed("x[v] * T.float32(2.0)", "x[v] + x[v]"), 1);
}

/// The parts of a function that determine its values or its arguments are not attributes.
#[test]
fn whatever_decides_a_value_is_executed() {
    let module = read(KERNELS);
    let text = script::print(&module, engine()).expect("a text");
    let changes = [
        ("T.float32(2.0)", "T.float32(-0.0)"),
        ("T.float32(-1.0)", "T.float32(1.0)"),
        ("a = R.call_tir(cls.twice", "a = R.call_tir(cls.negative"),
    ];
    for (old, new) in changes {
        assert!(text.contains(old), "{text}");
        let step = validation::step(engine(), "relax.AnnotateTIROpPattern", &module, &read(&text.replace(old, new)));
        let verdict = validation::verdict(engine(), &step.expect("a pass"), 1);
        assert!(matches!(&verdict, Verdict::Different(_)), "{new}: {verdict:?}");
    }
    let (zero, other) =
        (text.replace("T.float32(2.0)", "T.float32(0.0)"), text.replace("T.float32(2.0)", "T.float32(-0.0)"));
    let step = validation::step(engine(), "relax.AnnotateTIROpPattern", &read(&zero), &read(&other));
    let verdict = validation::verdict(engine(), &step.expect("a pass"), 1);
    assert_ne!(verdict, Verdict::Unchanged, "0.0 is not -0.0");
}

const REDUCED: &str = r#"
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        with R.dataflow():
            gv = R.sum(x, axis=[0])
            R.output(gv)
        return gv
"#;

/// `R.sum` over no rows is 0, but its PrimFunc writes nothing without rows, in TVM as well.
#[test]
fn a_reduction_over_nothing_is_not_compared() {
    let module = read(REDUCED);
    let (after, verdict) = validated("relax.LegalizeOps", &module);
    assert!(matches!(&verdict, Verdict::Same(same) if same.inputs > 2), "{verdict:?}");
    let verdict = with_other_text("relax.LegalizeOps", &module, &after, "= T.float32(0.0)", "= T.float32(1.0)");
    assert!(matches!(&verdict, Verdict::Different(_)), "{verdict:?}");
}

/// A function for which only `private` decides whether a pass may remove it.
const UNCALLED: &str = r#"
@I.ir_module
class Module:
    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.add(x, x)
        return y

    @R.function(private=True)
    def outer(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = cls.inner(x)
        return y

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.multiply(x, x)
        return y
"#;

#[test]
fn private_functions_that_nothing_calls_may_go() {
    let module = read(UNCALLED);
    let (after, verdict) = validated("relax.DeadCodeElimination", &module);
    assert_eq!((after.functions().count(), verdict), (1, Verdict::Unchanged));
    let public = read(&UNCALLED.replacen("private=True", "private=False", 1));
    let step = validation::step(engine(), "relax.DeadCodeElimination", &public, &after).expect("a pass");
    let verdict = validation::verdict(engine(), &step, 1);
    assert!(matches!(&verdict, Verdict::Different(_)), "{verdict:?}");
}

/// One flag decides which branch is taken, and another decides whether a block is written.
const BRANCHES: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def shift(x: T.Buffer((T.int64(4),), "int64"), n: T.int64, y: T.Buffer((T.int64(4),), "int64")):
        for i in range(T.int64(4)):
            with T.sblock("y"):
                v = T.axis.spatial(T.int64(4), i)
                y[v] = x[v]
            if n * n == T.int64(7):
                with T.sblock("more"):
                    v = T.axis.spatial(T.int64(4), i)
                    y[v] = x[v] + T.int64(7)

    @R.function
    def flag(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
        if c:
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y

    @R.function
    def never(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        m = R.max(x)
        c = R.less(R.abs(m), R.const(-1.0, "float32"))
        if c:
            y = R.add(x, x)
        else:
            y = R.multiply(x, x)
        return y

    @R.function
    def and_(a: R.Tensor((1,), "bool"), b: R.Tensor((1,), "bool")) -> R.Tensor((1,), "bool"):
        y = R.logical_and(a, b)
        return y

    @R.function
    def cast(x: R.Tensor((1,), "int32")) -> R.Tensor((1,), "int32"):
        y = R.astype(R.astype(x, "float32"), "int32")
        return y
"#;

/// Code that no input reaches may be wrong, so a pass that changed it is not reported as the same. Code that the two values of
/// a flag reach counts as reached.
#[test]
fn what_no_input_reaches_is_not_called_the_same() {
    let verdict = |pass: &str, old: &str, new: &str| of_other_text(pass, BRANCHES, old, new);
    let changed = |old: &str, new: &str| verdict("relax.CanonicalizeBindings", old, new);
    let flag = |name: &str| BRANCHES.find(&format!("def {name}")).expect("is there");
    let in_branch = &BRANCHES[flag("flag")..flag("never")];
    let other = in_branch.replace("R.multiply(x, x)", "R.subtract(x, x)");
    assert!(matches!(changed(in_branch, &other), Verdict::Different(_)), "the branch for False");
    let in_branch = &BRANCHES[flag("never")..flag("and_")];
    let verdict_of = changed(in_branch, &in_branch.replace("R.add(x, x)", "R.subtract(x, x)"));
    let Verdict::NotValidated { why } = &verdict_of else { panic!("{verdict_of:?}") };
    assert_eq!(why, "`never`: none of the inputs reaches the branch for true of `y` in `never` before the pass");
    assert!(matches!(changed("logical_and(a, b)", "logical_or(a, b)"), Verdict::Different(_)), "truth values");
    let cast = r#"R.astype(R.astype(x, "float32"), "int32")"#;
    assert!(matches!(changed(cast, "x"), Verdict::Different(_)), "integers beyond those of float32");
    let verdict_of = verdict("tirx.StmtSimplify", "+ T.int64(7)", "+ T.int64(8)");
    let Verdict::NotValidated { why } = &verdict_of else { panic!("{verdict_of:?}") };
    assert_eq!(why, "`shift`: none of the inputs reaches a part of `shift`: the store to `y` in block `more`");
}

/// Tests each kind of choice within an expression, with inputs that reach only one side.
#[test]
fn a_value_that_no_input_chooses_is_not_called_the_same() {
    let module = |value: &str| {
        format!(
            r#"
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.Buffer((T.int64(8),), "float32"), y: T.Buffer((T.int64(8),), "float32")):
        for i in range(T.int64(8)):
            y[i] = {value}
"#
        )
    };
    let why = |value: &str| match of_other_text("tirx.StmtSimplify", &module(value), "+ x[i]", "- x[i]") {
        Verdict::NotValidated { why } => {
            why.strip_prefix("`main`: none of the inputs reaches a part of `main`: ").map(str::to_string)
        }
        verdict => panic!("{value}: {verdict:?}"),
    };
    let huge = "x[i] * x[i] < T.float32(-1)";
    let side = |truth: bool| Some(format!("the value for {truth} of a choice, in the store to `y`"));
    assert_eq!(why(&format!("T.if_then_else({huge}, x[i] + x[i], x[i])")), side(true));
    assert_eq!(why(&format!("T.Select({huge}, x[i] + x[i], x[i])")), side(true));
    assert_eq!(why(&format!("T.Select(not {huge}, x[i], x[i] + x[i])")), side(false));
    let inner = format!("T.Select(i > T.int64(3), x[i], T.Select({huge}, x[i] + x[i], x[i]))");
    assert_eq!(why(&inner), side(true), "where the outer choice takes it");
    let after = |word: &str| Some(format!("the condition after an `{word}`, in the store to `y`"));
    assert_eq!(why(&format!("T.Cast(\"float32\", {huge} and x[i] + x[i] > T.float32(0))")), after("and"));
    assert_eq!(why(&format!("T.Cast(\"float32\", not {huge} or x[i] + x[i] > T.float32(0))")), after("or"));
    let seen = "T.if_then_else(x[i] > T.float32(0), x[i] + x[i], x[i])";
    assert!(matches!(of_other_text("tirx.StmtSimplify", &module(seen), "+ x[i]", "- x[i]"), Verdict::Different(_)));
    // The analyzer proves that the second value is never used.
    let never = "T.if_then_else(i < T.int64(8), x[i] * T.float32(2), x[i] + x[i])";
    assert!(matches!(of_other_text("tirx.StmtSimplify", &module(never), "+ x[i]", "- x[i]"), Verdict::Same(_)));
}

/// TVM's FlattenBuffer ignores memory reached through an offset or through growing strides. The memory ends directly
/// after the last element.
#[test]
fn a_flat_buffer_has_all_of_its_memory() {
    for view in ["elem_offset=4", "strides=[1, 2]", "elem_offset=6"] {
        let module = read(&format!(
            r#"
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.Buffer((8,), "float32"), y: T.Buffer((4,), "float32")):
        v = T.decl_buffer((2, 2), data=x.data, {view})
        for i, j in T.grid(2, 2):
            y[i * 2 + j] = v[i, j]
"#
        ));
        let (_, verdict) = validated("tirx.FlattenBuffer", &module);
        match (view, &verdict) {
            ("elem_offset=6", Verdict::NotValidated { why }) => assert!(
                why.contains("index [8] is outside of the memory of `x`, whose shape is [8]; at the load of `v`"),
                "{why}"
            ),
            (_, verdict) => {
                assert!(matches!(verdict, Verdict::Same(_)) && view != "elem_offset=6", "{view}: {verdict:?}")
            }
        }
    }
}

/// A result that depends on uninitialized memory everywhere cannot be compared. Elements that do not depend on it are compared.
#[test]
fn a_result_from_uninitialized_memory_is_not_validated() {
    let module = |shape: &str, value: &str| {
        format!(
            r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(x: T.Buffer(({shape},), "float32"), y: T.Buffer(({shape},), "float32")):
        t = T.alloc_buffer(({shape},), "float32")
        for i in range({shape}):
            y[i] = {value} + (x[i] + x[i])

    @R.function
    def main(x: R.Tensor(({shape},), "float32")) -> R.Tensor(({shape},), "float32"):
        cls = Module
        y = R.call_tir(cls.kernel, (x,), out_ty=R.Tensor(({shape},), "float32"))
        return y
"#
        )
        .replace("(n,)", "(\"n\",)")
        .replace("        t = ", if shape == "n" { "        n = T.int64()\n        t = " } else { "        t = " })
        .replace(
            "        cls = ",
            if shape == "n" { "        n = T.int64()\n        cls = " } else { "        cls = " },
        )
    };
    // Tests a pass over PrimFuncs, and a pass over the module.
    let infinite = "t[i] * t[i] * t[i] * T.float32(1e30)";
    for (pass, shape) in [("tirx.StmtSimplify", "8"), ("relax.LegalizeOps", "8"), ("relax.LegalizeOps", "n")] {
        for value in ["t[i] * x[i]", "T.max(t[i], x[i])", "T.min(x[i], t[i])", infinite] {
            for new in ["x[i] * T.float32(2)", "x[i] * T.float32(3)"] {
                match of_other_text(pass, &module(shape, value), "x[i] + x[i]", new) {
                    Verdict::NotValidated { why } => {
                        assert!(why.contains("its result depends on uninitialized elements"), "{value}: {why}");
                    }
                    // A maximum with a very large number does not depend on the uninitialized elements.
                    Verdict::Different(_) if value.contains("T.m") && new.contains('3') => {}
                    verdict => panic!("{pass} {value} {new}: {verdict:?}"),
                }
            }
        }
    }
    let partly = "T.if_then_else(i < 4, t[i], T.float32(0))";
    let verdict = of_other_text("tirx.StmtSimplify", &module("8", partly), "x[i] + x[i]", "x[i] * T.float32(2)");
    assert!(matches!(verdict, Verdict::Same(_)), "{verdict:?}");
    let verdict = of_other_text("tirx.StmtSimplify", &module("8", partly), "x[i] + x[i]", "x[i] - x[i]");
    assert!(matches!(verdict, Verdict::Different(_)), "{verdict:?}");
    let verdict = of_other_text("tirx.StmtSimplify", &module("8", "t[i] * T.float32(0)"), "x[i] + x[i]", "x[i] - x[i]");
    assert!(matches!(verdict, Verdict::Different(_)), "{verdict:?}");
}

/// The reduction of a tile starts from uninitialized memory, as TVM's own `blockize` and `cache_write` write it.
#[test]
fn no_pass_is_blamed_for_uninitialized_sums() {
    let module = read(
        r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def kernel(A: T.Buffer((4, 16), "float16"), B: T.Buffer((4,), "float16")):
        C = T.sblock_alloc_buffer((4,))
        for i, k in T.grid(4, 16):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                t = T.sblock_alloc_buffer((1,), scope="local")
                t[0] = t[0] + T.Cast("float32", A[vi, vk])
                C[vi] = t[0]
        for i in range(4):
            with T.sblock("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = T.Cast("float16", C[vi])
"#,
    );
    let passes = "s_tir.LowerInitBlock,s_tir.ConvertBlocksToOpaque,s_tir.CompactBufferAllocation,s_tir.LowerOpaqueBlock,\
                  tirx.FlattenBuffer,tirx.StorageRewrite";
    let (steps, error) = validation::steps(engine(), passes, &module).expect("a plan");
    assert!(error.is_none() && steps.len() > 3, "{error:?}");
    for step in &steps {
        match validation::verdict(engine(), step, 1) {
            Verdict::Unchanged => {}
            Verdict::NotValidated { why } => assert!(why.contains("depends on uninitialized elements"), "{why}"),
            verdict => panic!("{}: {verdict:?}", step.pass),
        }
    }
}

/// The threads of the input race already, and the inputs take more work than the limit. The pass only removes repeated
/// indices.
#[test]
fn a_pass_is_not_blamed_for_a_race_before_it() {
    let module = read(
        r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(V: T.Buffer((1, 1), "float16"), W: T.Buffer((24, 1), "float16"), T_matmul_NT: T.Buffer((1, 24), "float16")):
        T_matmul_NT_1 = T_matmul_NT.view(24)
        with T.launch_thread("blockIdx.x", 1) as u_fused_ax0_fused_fused_0:
            T_matmul_NT_rf_local = T.alloc_local((512,), "float16", annotations={"buffer_allocated_addr": [], "buffer_data_alignment": 1})
            T_matmul_NT_rf_local_1 = T.alloc_local((512,), "float16", annotations={"buffer_allocated_addr": [], "buffer_data_alignment": 1})
            with T.launch_thread("threadIdx.y", 16) as u_fused_ax0_fused_fused_1:
                ax1_fused_u_fused_1_ax1_fused_u_fused_3_fused_0 = T.launch_thread("threadIdx.x", 16)
                ax1_0 = T.int32()
                with T.attr(ax1_0, "pragma_unroll_explicit", 1):
                    for ax1_0_1 in range(1):
                        ax1_1 = T.launch_thread("threadIdx.y", 16)
                        ax1_2 = T.launch_thread("threadIdx.x", 16)
                        pass
                T_matmul_NT_rf_local[ax1_fused_u_fused_1_ax1_fused_u_fused_3_fused_0 * 16 + u_fused_ax0_fused_fused_1:ax1_fused_u_fused_1_ax1_fused_u_fused_3_fused_0 * 16 + u_fused_ax0_fused_fused_1 + 16:16] = T.Broadcast(T.float16(0.0), 2)
            with T.launch_thread("threadIdx.y", 16) as ax2_fused_0_ax2_fused_1_fused:
                ax0 = T.launch_thread("threadIdx.x", 16)
                for ax2_fused_2_0_1 in range(1):
                    T_matmul_NT_rf_local_1[ax0 * 16 + ax2_fused_0_ax2_fused_1_fused] = T.float16(0.0)
            with T.launch_thread("threadIdx.y", 16) as ax1_fused_0_ax1_fused_1_fused:
                ax0 = T.launch_thread("threadIdx.x", 16)
                T_matmul_NT_1[u_fused_ax0_fused_fused_0 * 16 + ax1_fused_0_ax1_fused_1_fused] = T_matmul_NT_1[u_fused_ax0_fused_fused_0 * 16 + ax1_fused_0_ax1_fused_1_fused] + T_matmul_NT_rf_local_1[ax0 * 16 + ax1_fused_0_ax1_fused_1_fused]
"#,
    );
    let (steps, error) = validation::steps(engine(), "tirx.CommonSubexprElim", &module).expect("a plan");
    assert!(error.is_none() && steps.len() == 1, "{error:?}");
    let verdict = validation::verdict(engine(), &steps[0], 1);
    assert!(!matches!(verdict, Verdict::Different(_)), "{verdict:?}");
}

/// Faults that the first input does not reveal.
const HIDDEN: &str = r#"
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def count(x: T.Buffer((T.int64(1),), "int64"), y: T.Buffer((T.int64(1),), "int64")):
        y[0] = T.int64(0)
        while y[0] < x[0] + T.int64(8):
            y[0] = y[0] + T.max(T.int64(1), x[0] - T.int64(2))

    @T.prim_func(private=True)
    def scaled(x: T.Buffer((T.int64(4),), "float32"), k: T.int64, y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            y[i] = x[i] * T.Cast("float32", T.max(k, T.int64(1)))

    @T.prim_func(private=True)
    def filled(var_x: T.handle, var_y: T.handle):
        n = T.int64()
        x = T.match_buffer(var_x, (n,), "int64")
        y = T.match_buffer(var_y, (T.int64(1),), "int64")
        for i in range(T.max(T.int64(1) - n, T.int64(0)) + n):
            y[0] = n

    @T.prim_func(private=True)
    def copy(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            y[i] = x[i]

    @R.function
    def counts(x: R.Tensor((1,), "int64")):
        cls = Module
        y = R.call_tir(cls.count, (x,), out_ty=R.Tensor((1,), "int64"))
        return y

    @R.function
    def fills(x: R.Tensor(("n",), "int64")):
        cls = Module
        y = R.call_tir(cls.filled, (x,), out_ty=R.Tensor((1,), "int64"))
        return y

    @R.function(pure=False)
    def writes(x: R.Tensor((4,), "float32"), out: R.Tensor((4,), "float32")):
        cls = Module
        z = R.add(x, x)
        _ = cls.copy(z, out)
        return x

    @R.function
    def nothing(x: R.Tensor((4,), "float32")):
        y = R.sqrt(R.subtract(R.multiply(R.negative(x), x), R.const(1.0, "float32")))
        z = R.exp(y)
        return z

    @R.function
    def clipped(x: R.Tensor((4,), "float32")):
        y = R.maximum(R.add(x, R.const(0.25, "float32")), R.const(10.0, "float32"))
        return y

    @R.function
    def closure(x: R.Tensor((4,), "float32")):
        @R.function
        def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            z = R.abs(y)
            return z
        return inner
"#;

#[test]
fn what_one_input_hides_others_or_nothing_shows() {
    let verdict = |pass: &str, old: &str, new: &str| {
        assert_eq!(HIDDEN.matches(old).count(), 1, "{old}");
        match of_other_text(pass, HIDDEN, old, new) {
            Verdict::Different(difference) => format!("{} differs: {:?}", difference.function, difference.what),
            Verdict::NotValidated { why } => why,
            other => format!("{other:?}"),
        }
    };
    let relax = |old: &str, new: &str| verdict("relax.CanonicalizeBindings", old, new);
    let endless = relax("T.max(T.int64(1), x[0]", "T.min(T.int64(1), x[0]");
    assert!(endless.starts_with("`counts`: after the pass, work limit"), "{endless}");
    let scaled = verdict("tirx.StmtSimplify", "T.max(k,", "T.min(k,");
    assert!(scaled.starts_with("scaled differs"), "{scaled}");
    let filled = relax("T.max(T.int64(1) - n", "T.min(T.int64(1) - n");
    assert!(filled.starts_with("fills differs"), "{filled}");
    let writes = relax("R.add(x, x)", "R.multiply(x, x)");
    assert!(writes.starts_with("writes differs") && writes.contains("\"argument 1\""), "{writes}");
    let nothing = relax("R.exp(y)", "R.abs(y)");
    assert_eq!(nothing, "`nothing`: all its results are NaN for every input");
    let clipped = relax("0.25", "0.5");
    assert!(clipped.starts_with("clipped differs"), "{clipped}");
    let closure = relax("R.abs(y)\n            return z", "R.negative(y)\n            return z");
    assert_eq!(closure, "`closure`: it returns a function, which is never called");
}
