//! Tests random TIR functions: the printed text reads back as the same module, and import, edits and traversals
//! preserve it.

use plugin_api::ir::import::Importer;
use plugin_api::ir::records::kind;
use plugin_api::ir::{BodyBuilder, Sections};
use plugin_api::prelude::*;
use plugin_api::tvm::post_order_visit;
use script::{NoOps, print, read};
use std::fmt::Write;

/// A source of choices that is the same in every run.
struct Choice(u64);

impl Choice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn of<'t>(&mut self, items: &[&'t str]) -> &'t str {
        items[self.below(items.len() as u64) as usize]
    }
}

/// Generates functions over `A` and `B` (float32, 2-D), `C` (int32, 1-D) and the integer `n`.
struct Writer {
    choice: Choice,
    out: String,
    /// Integer variables in scope.
    ints: Vec<String>,
    fresh: usize,
}

impl Writer {
    fn int(&mut self, depth: usize) -> String {
        if depth == 0 || self.choice.below(4) == 0 {
            let at = self.choice.below(self.ints.len() as u64 + 2) as usize;
            return match self.ints.get(at) {
                Some(name) => name.clone(),
                None => (self.choice.below(9) as i64 - 4).to_string(),
            };
        }
        let (a, b) = (self.int(depth - 1), self.int(depth - 1));
        match self.choice.below(8) {
            0 => format!("T.min({a}, {b})"),
            // A divisor that may fold to zero is avoided, because TVM rejects it.
            1 => format!("T.truncmod({a}, {} + C[0])", self.int(0)),
            2 => format!("C[{a}]"),
            3 => {
                let cond = self.cond(depth - 1);
                format!("T.Select({cond}, {a}, {b})")
            }
            4 => format!("T.Cast(\"int32\", {})", self.float(depth - 1)),
            5 => format!("({a}) {} (C[1] + 1)", self.choice.of(&["//", "%"])),
            _ => format!("({a}) {} ({b})", self.choice.of(&["+", "-", "*", "<<", "&", "|", "^"])),
        }
    }

    fn float(&mut self, depth: usize) -> String {
        if depth == 0 || self.choice.below(4) == 0 {
            return self
                .choice
                .of(&["T.float32(1.5)", "T.float32(-0.1)", "A[0, n]", "B[n, 0]", "T.float32(\"inf\")"])
                .into();
        }
        let (a, b) = (self.float(depth - 1), self.float(depth - 1));
        match self.choice.below(6) {
            0 => format!("T.exp({a})"),
            1 => format!("T.max({a}, {b})"),
            2 => format!("A[{}, {}]", self.int(depth - 1), self.int(depth - 1)),
            3 => {
                let cond = self.cond(depth - 1);
                format!("T.if_then_else({cond}, {a}, {b})")
            }
            _ => format!("({a}) {} ({b})", self.choice.of(&["+", "-", "*", "/"])),
        }
    }

    fn cond(&mut self, depth: usize) -> String {
        if depth > 0 && self.choice.below(3) == 0 {
            let (a, b) = (self.cond(depth - 1), self.cond(depth - 1));
            return match self.choice.below(3) {
                0 => format!("not ({a})"),
                1 => format!("({a}) and ({b})"),
                _ => format!("({a}) or ({b})"),
            };
        }
        let (a, b) = (self.int(depth.min(1)), self.int(depth.min(1)));
        format!("({a}) {} ({b})", self.choice.of(&["<", "<=", ">", ">=", "==", "!="]))
    }

    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.out, "{}{text}", "    ".repeat(indent));
    }

    fn name(&mut self) -> String {
        self.fresh += 1;
        // There are only a few names, so that scopes matter.
        format!("{}{}", self.choice.of(&["i", "j", "k"]), self.choice.below(2))
    }

    fn statements(&mut self, indent: usize, depth: usize) {
        let known = self.ints.len();
        for _ in 0..1 + self.choice.below(3) {
            self.statement(indent, depth);
        }
        self.ints.truncate(known);
    }

    fn scope(&mut self, head: &str, var: Option<String>, indent: usize, depth: usize) {
        self.line(indent, head);
        let known = self.ints.len();
        self.ints.extend(var);
        self.statements(indent + 1, depth - 1);
        self.ints.truncate(known);
    }

    fn statement(&mut self, indent: usize, depth: usize) {
        let (i, v) = (self.int(2), self.float(2));
        match if depth == 0 { self.choice.below(3) } else { self.choice.below(10) } {
            0 => self.line(indent, &format!("A[{i}, 0] = {v}")),
            1 => {
                let value = self.int(3);
                self.line(indent, &format!("C[{i}] = {value}"));
            }
            2 => self.line(indent, &format!("T.evaluate({i})")),
            3 | 4 => {
                let name = self.name();
                let head = match self.choice.below(5) {
                    0 => format!("for {name} in T.parallel({i}):"),
                    1 => format!("for {name} in range(2, {i}):"),
                    2 => format!("for {name} in T.serial({i}, annotations={{\"key\": 1}}):"),
                    3 => format!("for {name} in T.thread_binding(8, thread=\"threadIdx.x\"):"),
                    _ => format!("for {name} in range({i}):"),
                };
                self.scope(&head, Some(name), indent, depth);
            }
            5 => {
                let cond = self.cond(2);
                self.scope(&format!("if {cond}:"), None, indent, depth);
                if self.choice.below(2) == 0 {
                    self.scope("else:", None, indent, depth);
                }
            }
            6 => {
                let cond = self.cond(1);
                self.scope(&format!("while {cond}:"), None, indent, depth);
            }
            7 => {
                let name = format!("x{}", self.fresh);
                self.fresh += 1;
                self.line(indent, &format!("{name}: T.let[T.int32] = {i}"));
                self.ints.push(name);
            }
            8 => self.block(indent, depth, &i),
            _ => self.scope("with T.attr(A, \"key\", 1):", None, indent, depth),
        }
    }

    fn block(&mut self, indent: usize, depth: usize, value: &str) {
        self.line(indent, "with T.sblock(\"name\"):");
        let name = format!("v{}", self.fresh);
        self.fresh += 1;
        let axis = self.choice.of(&["spatial", "reduce", "scan", "opaque"]);
        self.line(indent + 1, &format!("{name} = T.axis.{axis}(16, {value})"));
        self.line(indent + 1, &format!("T.reads(A[{name}, 0:16], C[{name}])"));
        self.line(indent + 1, &format!("T.writes(B[{name}:{name} + 4, 0])"));
        self.ints.push(name);
        if self.choice.below(2) == 0 {
            self.line(indent + 1, "with T.init():");
            self.statements(indent + 2, 0);
        }
        self.statements(indent + 1, depth - 1);
        self.ints.pop();
    }
}

fn random(seed: u64) -> String {
    let mut writer = Writer {
        choice: Choice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        out: "@I.ir_module\nclass Module:\n    @T.prim_func(private=True, s_tir=True)\n    def main(A: T.Buffer((16, 16), \
              \"float32\"), B: T.Buffer((n, 16), \"float32\"), C: T.Buffer((16,), \"int32\"), n: T.int32):\n"
            .replace("(n, 16)", "(\"n\", 16)"),
        ints: vec!["n".to_string()],
        fresh: 0,
    };
    writer.statements(2, 4);
    writer.out
}

#[test]
fn random_functions_survive_everything_that_keeps_them() {
    for seed in 0..400 {
        let text = random(seed);
        let module = read(&text, &NoOps).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        let printed = print(&module, &NoOps).expect("the module can be printed");
        let again = read(&printed, &NoOps).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{printed}"));
        assert!(again.structural_eq(&module), "seed {seed}\n{text}\n{printed}");
        assert_eq!(again.structural_hash(), module.structural_hash());
        assert_eq!(print(&again, &NoOps).as_ref(), Ok(&printed), "seed {seed}: printing is not stable");
        keeps(module.get("main").expect("is there"), &format!("seed {seed}\n{text}"));
    }
}

/// Checks import, sealing, an edit without changes, and removal of unused values.
fn keeps(body: &Body, which: &str) {
    let mut builder = BodyBuilder::new();
    let mut importer = Importer::of(body);
    importer.copy(&mut builder, body.root()).expect("all operands are in the body");
    assert!(builder.finish().expect("valid").structural_eq(body), "import: {which}");
    let sealed = Body::seal(&Sections::copy_of(body.raw())).expect("valid");
    assert!(sealed.structural_eq(body), "sealing: {which}");
    assert!(body.rewrite(|_, _| Action::Keep).expect("valid").same(body), "rewriting: {which}");
    let mut stores = 0;
    post_order_visit(body, |value| stores += usize::from(value.kind() == kind::STORE));
    assert_eq!(stores, body.values().filter(|value| value.kind() == kind::STORE).count());
    let rest = remove_all_unused(body).expect("valid");
    assert_eq!(rest.values().filter(|value| value.kind() == kind::STORE).count(), stores, "removal: {which}");
}
