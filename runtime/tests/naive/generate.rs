//! Generates the source of PrimFuncs from a seed, with loops, blocks with reductions and conditions, splits,
//! choices, casts, integers that wrap around, possible divisions by zero, and possible indices out of bounds.

use plugin_api::prelude::DType;
use runtime::{Limits, Tensor};
use std::fmt::Write;

pub(crate) struct Generator {
    state: u64,
    index: &'static str,
    buffers: Vec<Buffer>,
    text: String,
    /// Loop variables in scope, with their extents.
    vars: Vec<(String, i64)>,
    next: usize,
    depth: usize,
}

#[derive(Clone)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<i64>,
}

const DTYPES: [&str; 13] = [
    "float32", "float32", "float32", "int32", "int64", "int8", "uint8", "float16", "bfloat16", "float64", "int16",
    "uint32", "uint64",
];

impl Generator {
    /// Generates a function, and describes its parameters.
    pub(crate) fn function(seed: u64) -> (String, Vec<Buffer>) {
        let (buffers, text, vars) = (Vec::new(), String::new(), Vec::new());
        let mut g = Generator {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678,
            index: "int64",
            buffers,
            text,
            vars,
            next: 0,
            depth: 2,
        };
        g.index = if g.one_in(3) { "int32" } else { "int64" };
        for name in ["A", "B", "C", "D"] {
            let buffer = g.buffer(name);
            g.buffers.push(buffer);
        }
        for _ in 0..1 + g.below(3) {
            g.nest();
        }
        let params: Vec<String> = g.buffers[..4]
            .iter()
            .map(|b| {
                let shape: Vec<String> = b.shape.iter().map(|n| g.int(*n)).collect();
                format!("{}: T.Buffer(({},), \"{}\")", b.name, shape.join(", "), b.dtype)
            })
            .collect();
        let head = "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n";
        let text = format!("{head}    def f({}):\n{}", params.join(", "), g.text);
        (text, g.buffers[..4].to_vec())
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn int(&self, value: i64) -> String {
        if self.index == "int64" { format!("T.int64({value})") } else { value.to_string() }
    }

    fn buffer(&mut self, name: &str) -> Buffer {
        let shape = (0..1 + self.below(3)).map(|_| self.of(&[1, 2, 3, 4, 7, 16, 20])).collect();
        Buffer { name: name.to_string(), dtype: self.of(&DTYPES), shape }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:width$}{text}", "", width = self.depth * 4);
    }

    fn var(&mut self, prefix: &str, extent: i64) -> String {
        self.next += 1;
        let name = format!("{prefix}{}", self.next);
        self.vars.push((name.clone(), extent));
        name
    }

    /// Generates loops over a written buffer, and their body.
    fn nest(&mut self) {
        let at = 2 + self.below(2);
        let target = self.buffers[at].clone();
        let (vars, depth) = (self.vars.len(), self.depth);
        let mut index = Vec::new();
        let mut conditions = Vec::new();
        for extent in &target.shape {
            if self.one_in(6) && *extent > 4 {
                // Splits a loop so that the last part is incomplete.
                let (outer, inner) = ((*extent + 3) / 4, 4);
                let (o, i) = (self.var("o", outer), self.var("i", inner));
                let range = format!("for {o}, {i} in T.grid({}, {}):", self.int(outer), self.int(inner));
                self.line(&range);
                self.depth += 1;
                let whole = format!("{o} * {} + {i}", self.int(4));
                conditions.push(format!("{whole} < {}", self.int(*extent)));
                index.push(whole);
            } else {
                let kind = self.of(&["T.serial", "T.serial", "T.parallel", "T.vectorized", "T.unroll"]);
                let name = self.var("i", *extent);
                let range = format!("for {name} in {kind}({}):", self.int(*extent));
                self.line(&range);
                self.depth += 1;
                index.push(name);
            }
        }
        match self.below(5) {
            0 => self.plain(&target, &index, &conditions),
            _ => self.block(&target, &index, &conditions),
        }
        self.vars.truncate(vars);
        self.depth = depth;
    }

    fn plain(&mut self, target: &Buffer, index: &[String], conditions: &[String]) {
        for condition in conditions {
            self.line(&format!("if {condition}:"));
            self.depth += 1;
        }
        if self.one_in(2) {
            let condition = self.condition(1);
            self.line(&format!("if {condition}:"));
            self.depth += 1;
            self.store(target, index);
            self.depth -= 1;
            if self.one_in(2) {
                self.line("else:");
                self.depth += 1;
                self.store(target, index);
                self.depth -= 1;
            }
        } else if self.one_in(3) {
            let n = self.of(&[2, 5]);
            let name = self.var("k", n);
            let range = format!("for {name} in range({}):", self.int(n));
            self.line(&range);
            self.depth += 1;
            self.store(target, index);
            if self.one_in(3) {
                let condition = self.condition(1);
                let jump = self.of(&["break", "continue"]);
                self.line(&format!("if {condition}:"));
                self.line(&format!("    {jump}"));
                self.store(target, index);
            }
            self.depth -= 1;
            self.vars.pop();
        } else {
            self.store(target, index);
        }
        if self.one_in(4) {
            self.store(target, index);
        }
    }

    fn store(&mut self, target: &Buffer, index: &[String]) {
        // Sometimes stores to an element that another iteration may also write.
        let index = match self.one_in(6) {
            true => target.shape.iter().map(|extent| self.position(*extent)).collect(),
            false => index.to_vec(),
        };
        let value = self.expr(target.dtype, 3);
        self.line(&format!("{}[{}] = {value}", target.name, index.join(", ")));
    }

    fn block(&mut self, target: &Buffer, index: &[String], conditions: &[String]) {
        let n_reduced = self.of(&[0, 0, 1, 2]);
        let reduced: Vec<i64> = (0..n_reduced).map(|_| self.of(&[1, 3, 9])).collect();
        let mut loops = Vec::new();
        for extent in &reduced {
            let k = self.var("k", *extent);
            let range = format!("for {k} in range({}):", self.int(*extent));
            self.line(&range);
            self.depth += 1;
            loops.push(k);
        }
        self.next += 1;
        let block = format!("with T.sblock(\"b{}\"):", self.next);
        self.line(&block);
        self.depth += 1;
        let mut axes = Vec::new();
        for (value, extent) in index.iter().zip(&target.shape) {
            let name = self.var("v", *extent);
            let line = format!("{name} = T.axis.spatial({}, {value})", self.int(*extent));
            self.line(&line);
            axes.push(name);
        }
        for (extent, k) in reduced.iter().zip(&loops) {
            let name = self.var("r", *extent);
            let line = format!("{name} = T.axis.reduce({}, {k})", self.int(*extent));
            self.line(&line);
        }
        if !conditions.is_empty() {
            self.line(&format!("T.where({})", conditions.join(" and ")));
        }
        let at = format!("{}[{}]", target.name, axes.join(", "));
        if !reduced.is_empty() {
            self.line("with T.init():");
            let init = self.expr(target.dtype, 1);
            self.line(&format!("    {at} = {init}"));
            let value = self.expr(target.dtype, 3);
            let sum = match self.below(3) {
                0 => format!("T.max({at}, {value})"),
                _ => format!("{at} + {value}"),
            };
            self.line(&format!("{at} = {sum}"));
        } else {
            self.store(target, &axes);
        }
    }

    /// Generates an index that is usually below an extent.
    fn position(&mut self, extent: i64) -> String {
        let n = self.int(extent);
        let fitting: Vec<String> =
            self.vars.iter().filter(|(_, of)| *of <= extent).map(|(name, _)| name.clone()).collect();
        if self.vars.is_empty() {
            return self.int(extent - 1);
        }
        let at = self.below(self.vars.len());
        let any = self.vars[at].0.clone();
        match self.below(9) {
            0 => {
                let at = self.below(extent as usize) as i64;
                self.int(at)
            }
            1 => format!("({any} * {} + {}) % {n}", self.int(3), self.int(2)),
            2 => format!("T.min({any}, {})", self.int(extent - 1)),
            3 => format!("{any} // {}", self.int(20)),
            4 if self.one_in(12) => any,
            5 if self.one_in(12) => format!("{any} - {}", self.int(1)),
            _ => match fitting.len() {
                0 => format!("{any} % {n}"),
                len => {
                    let at = self.below(len);
                    let name = fitting[at].clone();
                    if self.one_in(5) { format!("{} - {name}", self.int(extent - 1)) } else { name }
                }
            },
        }
    }

    fn load(&mut self) -> (String, &'static str) {
        let buffer = self.buffers[self.state as usize % 4].clone();
        let _ = self.word();
        let index: Vec<String> = buffer.shape.iter().map(|extent| self.position(*extent)).collect();
        (format!("{}[{}]", buffer.name, index.join(", ")), buffer.dtype)
    }

    fn literal(&mut self, dtype: &str) -> String {
        if dtype.contains("float") {
            return format!("T.{dtype}({})", self.of(&["0.5", "1.0", "-2.25", "0.1", "100.0"]));
        }
        let value = if dtype.starts_with('u') { self.of(&[0, 1, 2, 7, 255]) } else { self.of(&[0, 1, -1, 3, -7, 127]) };
        format!("T.{dtype}({value})")
    }

    fn expr(&mut self, dtype: &'static str, depth: usize) -> String {
        if depth == 0 || self.one_in(6) {
            return match self.below(4) {
                0 => self.literal(dtype),
                1 if !self.vars.is_empty() => {
                    let at = self.below(self.vars.len());
                    format!("T.Cast(\"{dtype}\", {})", self.vars[at].0)
                }
                _ => {
                    let (load, of) = self.load();
                    if of == dtype { load } else { format!("T.Cast(\"{dtype}\", {load})") }
                }
            };
        }
        let (a, b) = (self.expr(dtype, depth - 1), self.expr(dtype, depth - 1));
        match self.below(12) {
            0 | 1 => format!("({a} + {b})"),
            2 => format!("({a} - {b})"),
            3 | 4 => format!("({a} * {b})"),
            5 => format!("T.max({a}, {b})"),
            6 => format!("T.min({a}, {b})"),
            7 => {
                let condition = self.condition(depth - 1);
                format!("T.if_then_else({condition}, {a}, {b})")
            }
            8 => {
                let condition = self.condition(depth - 1);
                format!("T.Select({condition}, {a}, {b})")
            }
            9 if dtype == "float32" => {
                let function = self.of(&["exp", "tanh", "sqrt", "floor", "fabs", "round"]);
                format!("T.{function}({a})")
            }
            9 | 10 if dtype.contains("float") => format!("({a} / {b})"),
            9 => {
                // A loaded divisor may be 0; the reader rejects a constant 0.
                let divisor = match self.one_in(8) {
                    true => format!("T.Cast(\"{dtype}\", {})", self.load().0),
                    false => format!("T.max({b}, T.{dtype}(1))"),
                };
                let op = self.of(&["T.floordiv", "T.floormod", "T.truncdiv", "T.truncmod"]);
                format!("{op}({a}, {divisor})")
            }
            10 => {
                let op = self.of(&["T.bitwise_and", "T.bitwise_or", "T.bitwise_xor", "T.shift_left", "T.shift_right"]);
                match op.contains("shift") {
                    true => format!("{op}({a}, T.{dtype}(3))"),
                    false => format!("{op}({a}, {b})"),
                }
            }
            _ => {
                let other = self.of(&DTYPES);
                let inner = self.expr(other, depth - 1);
                format!("T.Cast(\"{dtype}\", {inner})")
            }
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let op = self.of(&["<", "<=", ">", ">=", "==", "!="]);
        match self.below(4) {
            0 if depth > 0 => {
                let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                let joint = self.of(&["and", "or"]);
                format!("({a} {joint} {b})")
            }
            1 | 2 if !self.vars.is_empty() => {
                let at = self.below(self.vars.len());
                let (name, extent) = self.vars[at].clone();
                format!("{name} {op} {}", self.int(extent / 2))
            }
            _ => {
                let dtype = self.of(&DTYPES);
                let (a, b) = (self.expr(dtype, depth.saturating_sub(1)), self.expr(dtype, 0));
                format!("{a} {op} {b}")
            }
        }
    }
}

/// Creates random tensors for the parameters of a function.
pub(crate) fn tensors(buffers: &[Buffer], seed: u64) -> Vec<Tensor> {
    let limits = Limits::unlimited();
    let tensor = |(at, buffer): (usize, &Buffer)| {
        let dtype: DType = buffer.dtype.parse().expect("a data type");
        Tensor::random(dtype, &buffer.shape, seed * 4 + at as u64, &limits).expect("a tensor")
    };
    buffers.iter().enumerate().map(tensor).collect()
}
