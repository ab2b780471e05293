//! Tests TIR that passes write: the result of a pass is compared with an expected text, which TVM also accepts
//! (`tests/oracle/authoring.py`).

use plugin_api::prelude::*;
use plugin_api::tir::{LoopKind, prim_func};
use plugin_api::tvm::StmtMutator;
use script::{NoOps, print_function, read};

/// Reads the only function of a text.
fn read_body(text: &str) -> Body {
    let module = read(text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.functions().next().expect("a function").1.clone()
}

fn printed(body: &Body) -> String {
    print_function("f", body, &NoOps).expect("the module can be printed")
}

/// Compares the result of a pass on the first text of a file in `script/tests/authoring` with the second text.
fn check(case: &str, change: impl FnOnce(&Body) -> Result<Body, PassError>) {
    let path = format!("{}/tests/authoring/{case}.py", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (before, after) = text.split_once("# after\n").expect("two texts");
    let found = change(&read_body(before)).unwrap_or_else(|error| panic!("{case}: {error}"));
    let found = printed(&found);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}# after\n{found}")).expect("written");
        return;
    }
    assert_eq!(found, after, "{case}; BLESS=1 rewrites it");
    assert!(read_body(&found).structural_eq(&read_body(after)));
}

/// Splits loops whose extent is a multiple of `factor`.
struct Split {
    factor: i64,
}

impl<'b> StmtMutator<'b> for Split {
    fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let Some(Stmt::For { extent, kind: "serial", .. }) = stmt.stmt() else { return Ok(Action::Keep) };
        let Some(n) = extent.dim().and_then(|n| n.as_int()) else { return Ok(Action::Keep) };
        if n % self.factor == 0 && n > self.factor {
            rw.tir(|t| {
                t.serial("i_0", n / self.factor, |outer| {
                    t.serial("i_1", self.factor, |inner| t.loop_body(stmt, outer * self.factor + inner))
                })
            })?;
        }
        Ok(Action::Keep)
    }
}

#[test]
fn loops_are_split() {
    check("split", |body| Split { factor: 4 }.mutate(body));
    check("split_scheduled", |body| Split { factor: 4 }.mutate(body));
}

/// Splits a loop whose extent is not known to be a multiple of the factor, by adding a condition around the body.
struct SplitAny;

impl<'b> StmtMutator<'b> for SplitAny {
    fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let Some(Stmt::For { var, extent, .. }) = stmt.stmt() else { return Ok(Action::Keep) };
        let name = var.name().unwrap_or("i").to_string();
        rw.tir(|t| {
            let n = t.value(extent);
            t.serial(&format!("{name}_0"), (n + 3) / 4, |outer| {
                t.vectorized(&format!("{name}_1"), 4, |inner| {
                    let i = outer * 4 + inner;
                    t.if_(i.lt(n), || t.loop_body(stmt, i));
                });
            });
        })?;
        Ok(Action::Keep)
    }
}

#[test]
fn loops_of_any_extent_are_split_with_a_condition() {
    check("split_any", |body| SplitAny.mutate(body));
}

struct Tile;

impl<'b> StmtMutator<'b> for Tile {
    fn visit_for(&mut self, i: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let Some(j) = i.region().children().find(|inner| extent_of(*inner).is_some()) else { return Ok(Action::Keep) };
        let (Some(n), Some(m)) = (extent_of(i), extent_of(j)) else { return Ok(Action::Keep) };
        rw.tir(|t| {
            t.grid(["i_0", "j_0", "i_1", "j_1"], [n / 4, m / 4, 4, 4], |[i_0, j_0, i_1, j_1]| {
                t.nest_body(&[(i, i_0 * 4 + i_1), (j, j_0 * 4 + j_1)]);
            })
        })?;
        Ok(Action::Keep)
    }
}

/// Returns the extent of a loop if it is a multiple of four.
fn extent_of(stmt: Value<'_>) -> Option<i64> {
    let Some(Stmt::For { extent, .. }) = stmt.stmt() else { return None };
    extent.dim()?.as_int().filter(|n| n % 4 == 0)
}

#[test]
fn loops_are_tiled() {
    check("tile", |body| Tile.mutate(body));
}

/// Returns a loop over `i` around a loop over `j`, with a statement in each.
fn with_jump(outer: &str, inner: &str) -> Body {
    read_body(&format!(
        "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n    def f(A: T.Buffer((16, 16), \"int32\")):\n        \
         for i in range(16):\n            {outer}\n            for j in range(16):\n                {inner}\n                \
         A[i, j] = A[i, j] + 1\n"
    ))
}

/// Puts a loop around the content of each condition.
struct Repeat;

impl<'b> StmtMutator<'b> for Repeat {
    fn visit_if_then_else(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        rw.tir(|t| t.serial("again", 2, |_| t.content(stmt)))?;
        Ok(Action::Keep)
    }
}

#[test]
fn a_loop_with_break_or_continue_gets_no_other_loops() {
    let inner_jump = |word: &str| format!("if A[i, 1] == 0:\n                    {word}");
    let outer_jump = |word: &str| format!("if A[i, 1] == 0:\n                {word}");
    let refused = |body: &Body, change: &dyn Fn(&Body) -> Result<Body, PassError>| {
        let error = change(body).expect_err("it has another meaning");
        (error.message.clone(), error.node.and_then(|at| body.value_at(at).stmt().map(|stmt| format!("{stmt:?}"))))
    };
    let message = |var: &str, word: &str| {
        format!(
            "the content of the loop over `{var}` has a `{word}`, which would then apply to the innermost new loop; \
             skip this loop if `tir::has_jumps` returns true for it"
        )
    };
    let split = |body: &Body| Split { factor: 4 }.mutate(body);
    for word in ["break", "continue"] {
        let inner = with_jump("A[i, 0] = 1", &inner_jump(word));
        let (found, place) = refused(&inner, &split);
        assert_eq!(found, message("j", word));
        assert!(place.expect("a place").starts_with("For"));
        let outer = with_jump(&outer_jump(word), "A[i, 0] = 1");
        assert_eq!(refused(&outer, &split).0, message("i", word));
        // The innermost loop of a tile is also a new loop.
        assert_eq!(refused(&inner, &|body| Whole.mutate(body)).0, message("j", word));
        assert!(refused(&inner, &|body| Repeat.mutate(body)).0.starts_with("the content of the statement has a"));
    }
    // A loop within the content keeps its variable.
    let inner = with_jump("A[i, 0] = 1", &inner_jump("break"));
    let changed = SplitOuter.mutate(&inner).expect("the outer loop has none of its own");
    assert!(printed(&changed).contains("for i_0, i_1 in T.grid(4, 4):"), "{}", printed(&changed));
}

/// Splits loops over `i`.
struct SplitOuter;

impl<'b> StmtMutator<'b> for SplitOuter {
    fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        match stmt.stmt() {
            Some(Stmt::For { var, .. }) if var.name() == Some("i") => Split { factor: 4 }.visit_for(stmt, rw),
            _ => Ok(Action::Keep),
        }
    }
}

/// Tiles each loop that contains jumps.
struct Whole;

impl<'b> StmtMutator<'b> for Whole {
    fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        if plugin_api::tir::has_jumps(stmt) {
            rw.tir(|t| t.grid(["a", "b"], [4, 4], |[a, b]| t.nest_body(&[(stmt, a * 4 + b)])))?;
        }
        Ok(Action::Keep)
    }
}

/// Makes a PrimFunc read a copy of the first buffer in fast memory.
struct ReadCopy;

impl<'b> StmtMutator<'b> for ReadCopy {
    fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let a = rw.body().root().region().children().next().expect("a parameter");
        rw.tir(|t| {
            let copy = t.alloc_buffer("copy", &[8], DType::F32, "shared");
            t.serial("i", 8, |i| t.store(copy, [i], t.load(t.buffer(a), [i])));
            t.substitute(stmt, a, copy);
        })?;
        Ok(Action::Keep)
    }
}

#[test]
fn a_buffer_takes_the_place_of_another() {
    check("read_copy", |body| ReadCopy.mutate(body));
}

/// Unrolls a short loop: the last iteration is the original body, with a number in place of the loop variable.
struct PeelLast;

impl<'b> StmtMutator<'b> for PeelLast {
    fn visit_for(&mut self, stmt: Value<'b>, rw: &mut Rewriter<'b>) -> Result<Action, PassError> {
        let last = rw.tir(|t| t.loop_body(stmt, 0));
        last.map(|()| Action::Keep)
    }
}

#[test]
fn a_loop_of_one_iteration_is_its_content() {
    check("one", |body| PeelLast.mutate(body));
}

#[test]
fn a_function_of_every_statement_is_written() {
    let body = prim_func(|t| {
        let [a, b] = ["A", "B"].map(|name| t.buffer_param(name, &[16, 16], DType::F32));
        let (c, n) = (t.buffer_param("C", &[16], DType::F32), t.param("n", DType::I32));
        let local = t.alloc_buffer("local", &[16], DType::F16, "shared");
        t.grid(["i", "k"], [16, 16], |[i, k]| {
            t.block("sum", || {
                let (vi, vk) = (t.spatial("vi", 16, i), t.reduce("vk", 16, k));
                t.where_(i.lt(n));
                t.reads(a, [(vi, 1), (vk, 1)]);
                t.writes(c, [(vi, 1)]);
                t.init(|| t.store(c, [vi], 0.0));
                t.store(c, [vi], t.load(c, [vi]) + t.load(a, [vi, vk]) * 0.5);
            });
        });
        t.parallel("p", 4, |p| {
            t.unroll("u", 4, |u| {
                let at = t.bind("at", p * 4 + u);
                t.store(local, [at], t.load(c, [at]).cast(DType::F16));
            });
        });
        t.loop_of(LoopKind::ThreadBinding("threadIdx.x"), "tx", 2, 14, |tx| {
            let value = t.load(c, [tx]);
            let big = value.lt(8.0).and(value.ne(0).or(tx.eq(3))).negated();
            t.if_else(
                big,
                || t.store(b, [tx, tx % 4], -t.call("tirx.exp", [value], DType::F32)),
                || t.store(b, [tx, 15 - tx], tx.lt(4).select(1.0, value).max(tx)),
            );
        });
        t.while_(t.load(c, [0]).le(1.0), || t.evaluate(t.call("tirx.exp", [t.load(c, [1])], DType::F32)));
    });
    let text = printed(&body.expect("well formed"));
    let path = format!("{}/tests/authoring/every_statement.py", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    assert_eq!(text, std::fs::read_to_string(&path).expect("a text"), "BLESS=1 rewrites it");
    assert!(read_body(&text).structural_eq(&read_body(&text)));
}

#[test]
fn faults_say_what_would_be_right() {
    let said = |f: &dyn Fn(&plugin_api::tir::Tir<'_, '_>)| prim_func(|t| f(t)).expect_err("a fault").message;
    assert_eq!(
        said(&|t| t.store(t.buffer_param("A", &[4, 4], DType::F32), [0], 1.0)),
        "a buffer of 2 dimensions needs as many indices, found 1"
    );
    assert_eq!(
        said(&|t| t.evaluate(t.spatial("v", 4, 0))),
        "an iteration variable must be written directly into `block`"
    );
    assert_eq!(
        said(&|t| t.evaluate(t.param("a", DType::I32) + t.param("b", DType::U8))),
        "the operands have data types int32 and uint8; convert one with `cast`"
    );
    assert_eq!(
        said(&|t| t.if_(t.param("a", DType::I32), || ())),
        "a condition must be a bool, found int32; compare it with something, as in `x.ne(0)`"
    );
}

/// Tests TVM's results for expressions such as `i * 0`, and that numbers take the data type of the other operand.
#[test]
#[allow(clippy::erasing_op, clippy::modulo_one, reason = "the expressions are meant to be simplified")]
fn numbers_are_computed_and_have_the_type_beside_them() {
    let body = prim_func(|t| {
        let (x, y) = (t.param("x", DType::I64), t.param("y", DType::F32));
        for value in [x * 1 + 0, x * 0, (x - 3) / 1, t.int(7, DType::I64) / 2, 2 * x + 1, x % 1, -x] {
            t.evaluate(value);
        }
        for value in [y * 2, y / 2.0, y + x, x.cast(DType::I32)] {
            t.evaluate(value);
        }
    });
    let text = printed(&body.expect("well formed"));
    let line = |line: &str| Some(line.strip_prefix("        T.evaluate(")?.strip_suffix(')')?.to_string());
    let found: Vec<String> = text.lines().filter_map(line).collect();
    let integers = ["x", "T.int64(0)", "x - T.int64(3)", "T.int64(3)", "T.int64(2) * x + T.int64(1)", "T.int64(0)"];
    assert_eq!(found[..6], integers);
    let others = ["x * T.int64(-1)", "y * T.float32(2.0)", "y / T.float32(2.0)", "y + T.Cast(\"float32\", x)"];
    assert_eq!(found[6..10], others);
    assert_eq!(found[10..], ["T.Cast(\"int32\", x)"]);
}

/// An expression with several uses is written once per use. A tree too large for memory is rejected.
#[test]
fn expressions_are_trees() {
    let doubled = |n: usize| {
        prim_func(|t| {
            let mut x = t.param("x", DType::I32) + 1;
            (0..n).for_each(|_| x = x * x);
            t.evaluate(x);
        })
    };
    let text = printed(&doubled(2).expect("few"));
    assert!(text.contains("T.evaluate((x + 1) * (x + 1) * ((x + 1) * (x + 1)))"), "{text}");
    let error = doubled(60).expect_err("many").message;
    assert!(error.contains("more than 1048576 parts when written out"), "{error}");
}
