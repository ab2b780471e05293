//! Generates PrimFuncs with loop-carried values, and with loop ranges read from memory that the function may change.
//! Each function can be executed: indices stay inside their buffers, and no element is read before it is written.

use super::Choices;
use std::fmt::Write;

/// Number of elements of the data buffers.
pub const ELEMENTS: i64 = 8;
/// Number of elements of `N`.
pub const COUNTS: i64 = 4;
/// Highest element of `N`.
pub const MOST: i64 = 5;

/// Returns the text of a module with one PrimFunc, `main(N, A, B)`: `N` contains trip counts, `A` and `B` contain
/// arbitrary integers.
pub fn carried_text(choices: &Choices<'_>) -> String {
    let (blocks, out) = (choices.coin(), String::new());
    let mut writer = Writer { c: choices, out, depth: 2, vars: Vec::new(), names: 0, left: 24, blocks };
    writer.function();
    writer.out
}

/// A scalar in scope: its name and its maximum value. Scalars are never negative.
type Scalar = (String, i64);

struct Writer<'c, 'b> {
    c: &'c Choices<'b>,
    out: String,
    depth: usize,
    vars: Vec<Scalar>,
    names: usize,
    /// Number of statements that may still be generated.
    left: usize,
    /// True if statements are in schedulable blocks.
    blocks: bool,
}

impl Writer<'_, '_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 4);
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn function(&mut self) {
        self.out.push_str("@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n");
        self.out.push_str(
            "    def main(N: T.Buffer((4,), \"int32\"), A: T.Buffer((8,), \"int32\"), B: T.Buffer((8,), \"int32\")):\n",
        );
        if self.blocks {
            self.line("t = T.sblock_alloc_buffer((8,), \"int32\")");
            self.line("u = T.sblock_alloc_buffer((8,), \"int32\")");
            self.line("p = T.sblock_alloc_buffer((1,), \"int32\", scope=\"local\")");
        } else {
            let local = self.c.coin();
            self.line("t = T.alloc_buffer((8,), \"int32\")");
            self.line("u = T.alloc_buffer((8,), \"int32\")");
            self.line(if local {
                "p = T.alloc_buffer((1,), \"int32\", scope=\"local\")"
            } else {
                "p = T.alloc_buffer((1,), \"int32\")"
            });
        }
        for buffer in ["p", "t", "u"] {
            if self.c.below(4) != 3 {
                self.fill(buffer);
            } else {
                self.first_fill(buffer);
            }
        }
        for _ in 0..1 + self.c.below(3) {
            self.statement(3);
        }
        self.line("for z in range(8):");
        self.line("    B[z] = (B[z] + t[z] * 3 + u[z] + p[0]) % 1009");
    }

    /// Writes all elements of a buffer, so that later code may read all of them.
    fn fill(&mut self, buffer: &str) {
        let value = self.c.within(0, 7);
        if buffer == "p" {
            return self.line(&format!("p[0] = {value}"));
        }
        self.line("for z in range(8):");
        self.line(&format!("    {buffer}[z] = {}", if self.c.coin() { "z".to_string() } else { value.to_string() }));
    }

    /// Writes a loop whose first iteration fills a buffer, and whose later iterations use the values left by earlier
    /// iterations.
    fn first_fill(&mut self, buffer: &str) {
        let (var, extent) = (self.name("i"), self.extent().0);
        // At least one iteration.
        self.line(&format!("for {var} in range({extent} + 1):"));
        self.depth += 1;
        self.line(&format!("if {var} == 0:"));
        self.depth += 1;
        self.fill(buffer);
        self.depth -= 1;
        self.vars.push((var, MOST + 3));
        let to = if buffer == "p" { "0".to_string() } else { self.index() };
        let value = self.index();
        let own = if buffer == "p" { "p[0]".to_string() } else { format!("{buffer}[{to}]") };
        let modulus = if buffer == "p" { 8 } else { 1009 };
        self.line(&format!("{own} = ({own} + A[{value}] + 1) % {modulus}"));
        self.line(&format!("B[{value}] = {own}"));
        self.vars.pop();
        self.depth -= 1;
    }

    fn statements(&mut self, depth: usize) {
        let known = self.vars.len();
        self.depth += 1;
        for _ in 0..1 + self.c.below(3) {
            self.statement(depth);
        }
        self.depth -= 1;
        self.vars.truncate(known);
    }

    fn statement(&mut self, depth: usize) {
        if self.left == 0 || depth == 0 {
            return self.store();
        }
        self.left -= 1;
        match self.c.below(12) {
            0 | 1 => self.store(),
            2..=5 => self.loop_(depth),
            6 | 7 => self.condition(depth),
            8 => self.bind(),
            9 => self.window(),
            10 => self.while_(),
            _ => self.block(),
        }
    }

    /// Returns a trip count of at most 6, and its maximum value.
    fn extent(&mut self) -> Scalar {
        let count = self.count();
        match self.c.below(8) {
            0 => (count, MOST),
            1 => (format!("T.min({count}, 4)"), 4),
            2 => (format!("T.min(T.max({count}, 1), 3)"), 3),
            3 => (format!("({count} + 1)"), MOST + 1),
            4 if !self.vars.is_empty() => {
                let (var, most) = self.vars[self.c.below(self.vars.len())].clone();
                if most < 7 { (format!("({var} + 1)"), most + 1) } else { (format!("({var} % 4 + 1)"), 4) }
            }
            5 => {
                let other = self.count();
                (format!("T.max({count}, {other})"), MOST)
            }
            6 => (format!("T.if_then_else({count} > 2, 4, {count})"), 4),
            _ => (self.c.of(&["4", "5", "2"]).to_string(), 5),
        }
    }

    /// Returns an element of `N`.
    fn count(&mut self) -> String {
        match self.c.below(4) {
            0 if !self.vars.is_empty() => {
                let (var, _) = &self.vars[self.c.below(self.vars.len())];
                format!("N[{var} % 4]")
            }
            _ => format!("N[{}]", self.c.below(4)),
        }
    }

    fn loop_(&mut self, depth: usize) {
        let var = self.name("i");
        let (extent, most) = self.extent();
        let is_number = extent.parse::<i64>().is_ok();
        let first = self.c.of(&["T.min(N[2], 2)", "1", "T.min(N[0], N[1])"]);
        let step = self.c.within(2, 4);
        match self.c.below(9) {
            8 => {
                let (count, n) = (self.count(), self.c.within(1, 2));
                let kind = self.c.of(&["range", "T.unroll"]);
                self.line(&format!("for {var} in {kind}({count}, {count} + {n}):"));
                self.vars.push((var, MOST + 1));
            }
            0 => {
                self.line(&format!("for {var} in range({first}, {extent} + 1):"));
                self.vars.push((var, most.max(MOST) + 1));
            }
            6 => {
                self.line(&format!("for {var} in range({first}, {extent} + 1, {step}):"));
                self.vars.push((var, most.max(MOST) + 1));
            }
            7 if is_number => {
                self.line(&format!("for {var} in T.unroll(1, {extent} + 2, step={step}):"));
                self.vars.push((var, most + 1));
            }
            1 if is_number => {
                self.line(&format!("for {var} in T.unroll({extent}):"));
                self.vars.push((var, most));
            }
            _ => {
                self.line(&format!("for {var} in range({extent}):"));
                self.vars.push((var, most));
            }
        }
        self.statements(depth - 1);
        self.vars.pop();
    }

    fn condition(&mut self, depth: usize) {
        let cond = self.truth();
        self.line(&format!("if {cond}:"));
        self.statements(depth - 1);
        if self.c.coin() {
            self.line("else:");
            self.statements(depth - 1);
        }
    }

    fn truth(&mut self) -> String {
        let (count, index) = (self.count(), self.index());
        match self.c.below(6) {
            0 if !self.vars.is_empty() => {
                let (var, _) = self.vars[self.c.below(self.vars.len())].clone();
                format!("{var} < {count}")
            }
            1 if !self.vars.is_empty() => {
                let (var, _) = self.vars[self.c.below(self.vars.len())].clone();
                format!("T.likely({var} > {})", self.c.below(3))
            }
            2 => format!("t[{index}] > u[{index}]"),
            3 => format!("p[0] < {}", self.c.within(1, 6)),
            4 => format!("{count} > 1 and A[{index}] > 0"),
            _ => format!("{count} > {}", self.c.below(4)),
        }
    }

    fn bind(&mut self) {
        let name = self.name("n");
        let (value, most) = match self.c.below(3) {
            0 => ("p[0]".to_string(), 7),
            1 => (self.index(), 7),
            _ => (self.count(), MOST),
        };
        self.line(&format!("{name}: T.let[T.int32] = {value}"));
        self.vars.push((name, most));
    }

    /// Returns an index of a buffer with eight elements.
    fn index(&mut self) -> String {
        let scalar = match self.vars.is_empty() {
            true => None,
            false => Some(self.vars[self.vars.len() - 1 - self.c.below(self.vars.len())].clone()),
        };
        match (self.c.below(8), scalar) {
            (0 | 7, Some((var, most))) if most < 8 => var,
            (1, Some((var, most))) if most < 8 => format!("T.max({var} - {}, 0)", self.c.within(1, 2)),
            (2, Some((var, most))) if most < 8 => format!("T.min({var} + 1, 7)"),
            (3, Some((var, most))) if most < 8 => format!("7 - {var}"),
            (4, Some((var, _))) => format!("({var} + {}) % 8", self.c.below(8)),
            (5, _) => "p[0]".to_string(),
            (6, _) => self.count(),
            _ => self.c.below(8).to_string(),
        }
    }

    fn value(&mut self) -> String {
        let index = self.index();
        match self.c.below(6) {
            0 => format!("A[{index}]"),
            1 => format!("t[{index}] + 1"),
            2 => {
                let other = self.index();
                format!("u[{index}] * 3 + t[{other}]")
            }
            3 => format!("{index} + B[{index}]"),
            4 => {
                let count = self.count();
                format!("{count} * 7 + p[0]")
            }
            _ => {
                let cond = self.truth();
                format!("T.if_then_else({cond}, t[{index}], A[{index}])")
            }
        }
    }

    fn store(&mut self) {
        let value = self.value();
        match self.c.below(9) {
            0..=2 => {
                let index = self.index();
                self.line(&format!("t[{index}] = ({value}) % 1009"));
            }
            3 => {
                let index = self.index();
                self.line(&format!("u[{index}] = ({value}) % 1009"));
            }
            4 => self.line(&format!("p[0] = ({value}) % 8")),
            5 => self.line(&format!("N[{}] = ({value}) % 6", self.c.below(4))),
            _ => {
                let index = self.index();
                self.line(&format!("B[{index}] = ({value}) % 1009"));
            }
        }
    }

    /// Writes a loop in which each iteration reads elements that earlier iterations wrote.
    fn window(&mut self) {
        let (var, extent) = (self.name("w"), self.extent().0);
        let by = self.c.within(1, 2);
        let index = self.index();
        self.line(&format!("for {var} in range({extent}):"));
        self.line(&format!("    t[{var}] = (A[{index}] + {var}) % 1009"));
        self.line(&format!("    B[{var}] = (t[T.max({var} - {by}, 0)] * 10 + t[{var}]) % 1009"));
    }

    /// Writes a loop that counts down, with the counter in memory.
    fn while_(&mut self) {
        let (index, value) = (self.index(), self.value());
        self.line("while p[0] > 0:");
        self.line(&format!("    t[p[0]] = ({value}) % 1009"));
        self.line(&format!("    B[p[0]] = (t[{index}] + t[7 - p[0]]) % 1009"));
        self.line("    p[0] = p[0] - 1");
    }

    /// Writes statements in schedulable blocks, with iterators of each kind.
    fn block(&mut self) {
        if !self.blocks {
            return self.window();
        }
        let (var, name) = (self.name("k"), self.name("b"));
        // A block accesses the loops around it only through its iterators.
        let around = std::mem::take(&mut self.vars);
        let (index, (extent, _)) = (self.index(), self.extent());
        self.vars = around;
        match self.c.below(3) {
            0 => {
                self.line(&format!("for {var} in range({extent}):"));
                self.line(&format!("    with T.sblock(\"{name}\"):"));
                self.line(&format!("        v = T.axis.opaque({extent}, {var})"));
                self.line(&format!("        t[v] = (A[{index}] + v + t[T.max(v - 1, 0)]) % 1009"));
                self.line("        B[v] = t[v] + t[T.max(v - 1, 0)]");
            }
            1 => {
                self.line(&format!("for {var}, r_{var} in T.grid(8, 4):"));
                self.line(&format!("    with T.sblock(\"{name}\"):"));
                self.line(&format!("        v = T.axis.spatial(8, {var})"));
                self.line(&format!("        r = T.axis.reduce(4, r_{var})"));
                self.line("        with T.init():");
                self.line("            u[v] = 0");
                self.line("        u[v] = u[v] + A[(v + r) % 8] * N[r]");
            }
            _ => {
                self.line(&format!("for {var} in range(8):"));
                self.line(&format!("    with T.sblock(\"{name}\"):"));
                self.line(&format!("        v = T.axis.spatial(8, {var})"));
                self.line("        p[0] = (A[v] + v) % 8");
                self.line("        B[v] = A[p[0]] + u[v]");
            }
        }
    }
}
