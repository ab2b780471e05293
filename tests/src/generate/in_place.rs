//! Generates Relax functions in which calls write to their arguments, among calls that read them. They are generated as
//! text, because the order of statements matters.

use super::Choices;
use std::fmt::Write;

/// PrimFuncs over four elements that the function calls, and a function that updates its parameter.
const HEAD: &str = r#"@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def inc(a: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"op_pattern": 0})
        for i in range(T.int64(4)):
            with T.sblock("inc"):
                v = T.axis.spatial(T.int64(4), i)
                T.reads(a[v])
                T.writes(a[v])
                a[v] = a[v] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def add_to(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"op_pattern": 0})
        for i in range(T.int64(4)):
            with T.sblock("add_to"):
                v = T.axis.spatial(T.int64(4), i)
                T.reads(a[v], b[v])
                T.writes(a[v])
                a[v] = a[v] * T.float32(0.5) + b[v]

    @T.prim_func(private=True, s_tir=True)
    def neg(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        T.func_attr({"op_pattern": 0})
        for i in range(T.int64(4)):
            with T.sblock("neg"):
                v = T.axis.spatial(T.int64(4), i)
                T.reads(a[v])
                T.writes(b[v])
                b[v] = T.float32(0) - a[v]

    @R.function(private=True)
    def update(t: R.Tensor((4,), "float32"), u: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        before = R.add(t, u)
        t1 = R.call_tir_inplace(cls.inc, (t,), inplace_indices=[0], out_ty=R.Tensor((4,), "float32"))
        after = R.multiply(t1, before)
        return after

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
"#;

const TY: &str = r#"R.Tensor((4,), "float32")"#;

/// A value of the function, and the memory that contains it.
#[derive(Clone)]
struct Known {
    name: String,
    memory: usize,
}

struct Writer<'c> {
    c: &'c Choices<'c>,
    text: String,
    indent: usize,
    tensors: Vec<Known>,
    /// Pairs of tensors, each with its name.
    tuples: Vec<(String, [Known; 2])>,
    n: usize,
}

/// Returns the text of a module whose function `main` updates values in place, in a dataflow block or outside of a
/// block.
pub fn in_place_module(c: &Choices<'_>) -> String {
    let param = |(memory, name): (usize, &str)| Known { name: name.to_string(), memory };
    let tensors = ["x", "y"].into_iter().enumerate().map(param).collect();
    let mut w = Writer { c, text: HEAD.to_string(), indent: 2, tensors, tuples: Vec::new(), n: 2 };
    let flows = c.below(3) != 2;
    if flows {
        w.line("with R.dataflow():");
        w.indent += 1;
    }
    for _ in 0..3 + c.below(9) {
        w.statement(flows);
    }
    let first = w.tensors.len().saturating_sub(4).max(2);
    let results: Vec<String> = w.tensors[first.min(w.tensors.len())..].iter().map(|known| known.name.clone()).collect();
    let results = if results.is_empty() { vec!["x".to_string()] } else { results };
    if flows {
        let made: Vec<&str> = results.iter().map(String::as_str).filter(|name| *name != "x").collect();
        if made.is_empty() {
            w.line("e = R.exp(x)");
            w.line("R.output(e)");
        } else {
            let outputs = made.join(", ");
            w.line(&format!("R.output({outputs})"));
        }
        w.indent -= 1;
    }
    let returned = results.join(", ");
    w.line(&format!("return ({returned},)"));
    w.text
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        writeln!(self.text, "{}{text}", "    ".repeat(self.indent)).expect("a string takes text");
    }

    fn any(&self) -> Known {
        self.tensors[self.c.below(self.tensors.len())].clone()
    }

    fn fresh(&mut self) -> String {
        self.n += 1;
        format!("v{}", self.n)
    }

    /// Binds a new name to a memory; if `memory` is `None`, the value has its own memory.
    fn bind(&mut self, memory: Option<usize>, value: &str) {
        let name = self.fresh();
        self.line(&format!("{name} = {value}"));
        let memory = memory.unwrap_or(self.n);
        self.tensors.push(Known { name, memory });
    }

    fn statement(&mut self, flows: bool) {
        match self.c.below(if flows { 13 } else { 15 }) {
            0 | 1 => {
                let (op, a) = (self.c.of(&["exp", "negative", "nn.relu"]), self.any());
                self.bind(None, &format!("R.{op}({})", a.name));
            }
            2 => {
                let (op, a, b) = (self.c.of(&["add", "multiply"]), self.any(), self.any());
                self.bind(None, &format!("R.{op}({}, {})", a.name, b.name));
            }
            3 | 4 => {
                let a = self.any();
                self.update(&a, "inc", &a.name.clone());
            }
            5 => {
                let (a, b) = (self.any(), self.any());
                if a.memory != b.memory {
                    let args = format!("{}, {}", a.name, b.name);
                    self.update(&a, "add_to", &args);
                }
            }
            6 => {
                let a = self.any();
                self.bind(None, &format!("R.call_tir(cls.neg, ({},), out_ty={TY})", a.name));
            }
            7 => {
                let (parts, name) = ([self.any(), self.any()], self.fresh());
                self.line(&format!("{name} = ({}, {})", parts[0].name, parts[1].name));
                self.tuples.push((name, parts));
            }
            8 => {
                let at = self.c.below(self.tuples.len());
                if let Some((name, parts)) = self.tuples.get(at).cloned() {
                    let index = self.c.below(2);
                    self.bind(Some(parts[index].memory), &format!("{name}[{index}]"));
                }
            }
            9 => {
                let a = self.any();
                self.bind(Some(a.memory), &a.name.clone());
            }
            10 => {
                let (a, b) = (self.any(), self.any());
                if a.memory != b.memory {
                    self.bind(None, &format!("cls.update({}, {})", a.name, b.name));
                }
            }
            11 => {
                let constant = self.constant();
                self.bind(None, &constant);
            }
            12 => {
                let constant = self.constant();
                self.bind(None, &format!("R.call_tir(cls.neg, ({constant},), out_ty={TY})"));
            }
            13 => self.branches(),
            _ => {
                let a = self.any();
                self.bind(Some(a.memory), &format!("R.match_cast({}, {TY})", a.name));
            }
        }
    }

    /// Returns one of a few constants, so that some are equal.
    fn constant(&self) -> String {
        format!("R.const([1.0, 2.0, 3.0, {}.0], \"float32\")", self.c.below(2))
    }

    fn update(&mut self, a: &Known, function: &str, args: &str) {
        let call = format!("R.call_tir_inplace(cls.{function}, ({args},), inplace_indices=[0], out_ty={TY})");
        self.bind(Some(a.memory), &call);
    }

    /// Writes an If that updates one of two values. Its result may be in the memory of either value, so later updates
    /// do not use the two together.
    fn branches(&mut self) {
        let (a, b, name) = (self.any(), self.any(), self.fresh());
        self.line("if c:");
        let call = |a: &Known| format!("R.call_tir_inplace(cls.inc, ({},), inplace_indices=[0], out_ty={TY})", a.name);
        self.line(&format!("    {name}_t = {}", call(&a)));
        self.line(&format!("    {name}: {TY} = {name}_t"));
        self.line("else:");
        self.line(&format!("    {name}_e = R.negative({})", b.name));
        self.line(&format!("    {name}: {TY} = {name}_e"));
        self.tensors.push(Known { name, memory: a.memory });
    }
}
