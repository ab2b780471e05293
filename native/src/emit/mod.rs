//! Lowers a loop program to textual LLVM IR.
//!
//! The module has one entry, `i32 @NAME(ptr context)`; the context has the layout of
//! [`Context`](crate::call::Context). Each register is a stack slot, which LLVM promotes to an LLVM register. A
//! place that can end the run is a *site*: the code stores its number and the values for the message, and returns
//! 1.
//!
//! | file | what |
//! |---|---|
//! | `ranges` | ranges of integers, which make some checks unnecessary |
//! | `context` | the fields of the context |
//! | `types` | LLVM's types of registers and elements |
//! | `function` | slots, labels, reading and writing registers |
//! | `statements` | lists, conditions, loops |
//! | `unasked` | automatic vectorization of loops around reductions |
//! | `parallel` | loops over threads |
//! | `memory` | loads, stores, bounds, allocations |
//! | `numbers` | operations |
//! | `tiles` | memory that can be accessed without a mask |
//! | `limits` | counting of work, and limits of code size |
//! | `sites` | places that can end a run |
//! | `export` | functions for other programs, and their argument checks |

mod context;
mod export;
mod function;
mod limits;
mod masks;
mod memory;
mod numbers;
mod parallel;
mod ranges;
mod sites;
mod statements;
mod tiles;
mod types;
mod unasked;

pub(crate) use context::{FILLED, Field};
pub(crate) use export::{Exported, library, names_of_symbols, shape_text, why_not};
pub(crate) use limits::of_list as cost;
pub(crate) use sites::{INTERPRET, MOST_VALUES, OF_CALLBACK, Site};

use self::function::Function;
use self::ranges::Ranges;
use runtime::Fault;
use runtime::program::{Affine, Instr, Literal, ParamKind, Program, Proven, Reg, Scalar, Sums, depth, each_instr};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The purpose for which code is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Purpose {
    /// True if the code reports reads of unwritten memory, and records executed statements.
    pub(crate) watched: bool,
    /// True if `float16` can be compiled; see `Llvm::has_half`.
    pub(crate) half: bool,
    /// True if there is a fused multiply-add instruction.
    pub(crate) mul_add: bool,
    /// True if other programs load the code, which then cannot use callbacks.
    pub(crate) standalone: bool,
    /// True if LLVM must not detect that two masked values have the same mask; see `Llvm::loops_over_selects`.
    pub(crate) hides_masks: bool,
}

/// A program as LLVM IR.
#[derive(Debug)]
pub(crate) struct Emitted {
    /// The module. Its entry is named [`ENTRY`].
    pub(crate) text: String,
    /// The places that can end a run. The code returns the index of a site.
    pub(crate) sites: Vec<Site>,
    /// Registers set by the caller, in the order of the context's scalars.
    pub(crate) scalars: Vec<Reg>,
}

/// Placeholder for the entry's name.
pub(crate) const ENTRY: &str = "passhost_kernel";

/// Bytes of stack for deeply nested statements.
const STACK: usize = 16 << 20;
/// Maximum number of instructions and maximum nesting of a compiled function; larger functions are interpreted.
const MOST_INSTRUCTIONS: usize = 100_000;
const DEEPEST: usize = 100;

/// Emits a program.
///
/// # Errors
/// Fails if some part of the program cannot be compiled.
pub(crate) fn emit(program: &Program, proven: &Proven, purpose: Purpose) -> Result<Emitted, Fault> {
    let program = &program.for_single_loops();
    let mut module = Module::new(program, ENTRY, (proven, purpose));
    module.kernel()?;
    let (scalars, sites) = (scalars(program), std::mem::take(&mut module.sites));
    Ok(Emitted { text: text([module]), sites, scalars })
}

/// Returns the registers set by the caller.
fn scalars(program: &Program) -> Vec<Reg> {
    let symbols = program.symbols.iter().map(|symbol| symbol.reg);
    let params = program.params.iter().filter_map(|param| match param.kind {
        ParamKind::Scalar(reg) => Some(reg),
        _ => None,
    });
    params.chain(symbols).collect()
}

/// Joins several programs into one module.
fn text<'p>(modules: impl IntoIterator<Item = Module<'p>>) -> String {
    let (mut text, mut declared, mut metadata) = (String::new(), BTreeSet::new(), String::new());
    for module in modules {
        text.push_str(&module.functions);
        declared.extend(module.declared);
        metadata.push_str(&module.metadata);
    }
    for declaration in declared {
        let _ = writeln!(text, "{declaration}");
    }
    text.push_str("attributes #0 = { nounwind \"prefer-vector-width\"=\"512\" }\n");
    text.push_str("attributes #1 = { nounwind noinline \"prefer-vector-width\"=\"512\" }\n");
    text.push_str(&metadata);
    text
}

/// The state shared by all functions of a module.
struct Module<'p> {
    program: &'p Program,
    /// Prefix of the names of this program's functions.
    name: &'p str,
    /// Proven facts about the program's memory.
    proven: &'p Proven,
    purpose: Purpose,
    ranges: Ranges,
    sums: Sums,
    /// The instructions that write registers. Registers with several values are excluded.
    definitions: BTreeMap<Reg, &'p Instr>,
    /// For each register, true for an integer stored in 64 bits.
    wide: Vec<bool>,
    sites: Vec<Site>,
    /// Finished functions.
    functions: String,
    /// Declarations of the intrinsics in use.
    declared: BTreeSet<String>,
    /// Loop hints, as metadata.
    metadata: String,
    hints: usize,
    outlined: usize,
    /// Number of instructions in unrolled loops.
    unrolled: u64,
    /// Number of constant strings.
    texts: usize,
    /// Indices of the called float functions.
    called: BTreeSet<usize>,
    /// Storages passed as parameters; all others are allocated by the code.
    given: BTreeSet<u32>,
    /// The factors of the size of each allocated storage; `None` if they differ between allocations.
    factors: BTreeMap<u32, Option<Vec<Affine>>>,
    /// The registers that are always the same constant.
    constants: BTreeMap<Reg, Literal>,
    /// Variables of loops vectorized without a request.
    unasked: BTreeSet<Reg>,
    /// Memory that inactive lanes may write.
    unmasked: BTreeSet<u32>,
}

/// Returns the instructions that write registers, except registers with several values.
fn definitions<'p>(program: &'p Program, sums: &Sums) -> BTreeMap<Reg, &'p Instr> {
    let mut definitions = BTreeMap::new();
    each_instr(&program.body, &mut |instr| {
        definitions.extend(instr.written().filter(|reg| sums.is_fixed(*reg)).map(|reg| (reg, instr)));
    });
    definitions
}

fn factors(program: &Program) -> BTreeMap<u32, Option<Vec<Affine>>> {
    let mut all: BTreeMap<u32, Option<Vec<Affine>>> = BTreeMap::new();
    each_instr(&program.body, &mut |instr| {
        if let Instr::Allocate { storage, factors, .. } = instr {
            let known = all.entry(*storage).or_insert_with(|| Some(factors.clone()));
            *known = known.take().filter(|known| known == factors);
        }
    });
    all
}

/// Returns the registers that are set once, to a constant. Code uses the constants themselves, also in other functions,
/// because LLVM does not see through the memory by which a loop on threads gets its values.
fn constants(program: &Program) -> BTreeMap<Reg, Literal> {
    let mut all: BTreeMap<Reg, Option<Literal>> = BTreeMap::new();
    let params = program.params.iter().filter_map(|param| match &param.kind {
        ParamKind::Scalar(reg) => Some(*reg),
        _ => None,
    });
    all.extend(params.map(|reg| (reg, None)));
    each_instr(&program.body, &mut |instr| {
        if let Some(reg) = instr.written() {
            let value = if let Instr::Const { value, .. } = instr { Some(*value) } else { None };
            all.entry(reg).and_modify(|known| *known = None).or_insert(value);
        }
    });
    all.into_iter().filter_map(|(reg, value)| Some((reg, value?))).collect()
}

impl<'p> Module<'p> {
    /// Returns true if new memory must be filled because the program may read it before writing it.
    fn fills(&self, storage: u32) -> bool {
        self.purpose.watched || !self.proven.reads_what_it_wrote_to(storage)
    }

    fn new(program: &'p Program, name: &'p str, (proven, purpose): (&'p Proven, Purpose)) -> Module<'p> {
        let ranges = Ranges::of(program);
        let sums = Sums::of(program, |reg, sum| ranges.fits(program.registers[reg.index()], sum));
        let definitions = definitions(program, &sums);
        Module {
            program,
            name,
            proven,
            purpose,
            unasked: unasked::loops_to_vectorize(program),
            unmasked: tiles::without_masks(program, &ranges, &sums, &definitions),
            ranges,
            sums,
            definitions,
            wide: ranges::of_forms(program),
            sites: Vec::new(),
            functions: String::new(),
            declared: BTreeSet::new(),
            metadata: String::new(),
            hints: 0,
            outlined: 0,
            unrolled: 0,
            texts: 0,
            called: BTreeSet::new(),
            given: program.given().collect(),
            factors: factors(program),
            constants: constants(program),
        }
    }

    fn scalar(&self, reg: Reg) -> Scalar {
        self.program.registers[reg.index()]
    }

    /// Returns the alignment of a storage. Memory from other programs may be aligned only to its elements.
    fn align(&self, storage: u32) -> u64 {
        if !self.purpose.standalone || !self.given.contains(&storage) {
            return 64;
        }
        let buffers = self.program.buffers.iter().filter(|buffer| buffer.storage == storage);
        buffers.map(|buffer| buffer.element.bytes()).max().unwrap_or(1)
    }

    /// Emits the entry and the work function.
    fn kernel(&mut self) -> Result<(), Fault> {
        let mut instructions = 0;
        each_instr(&self.program.body, &mut |_| instructions += 1);
        if instructions > MOST_INSTRUCTIONS || depth(&self.program.body) > DEEPEST {
            return Err(Fault::unsupported("a function of this size in native code"));
        }
        if !self.purpose.half && self.program.registers.contains(&Scalar::F16) {
            return Err(Fault::unsupported("float16 in native code on this machine with this version of LLVM"));
        }
        stacker::grow(STACK, || self.entry())
    }

    /// Emits the entry. The parameters of the work function declare that the memory does not overlap.
    fn entry(&mut self) -> Result<(), Fault> {
        let (name, program) = (self.name, self.program);
        let given: Vec<u32> = self.given.iter().copied().collect();
        let param = |storage: &u32| format!(", ptr noalias align {} %s{storage}", self.align(*storage));
        let params: Vec<String> = given.iter().map(param).collect();
        let mut body =
            Function::new(self, format!("define internal i32 @{name}.work(ptr %context{})", params.concat()));
        body.scalars(&scalars(program));
        body.check_memory();
        body.list(&program.body)?;
        body.finish("0");
        let head =
            if self.purpose.standalone { format!("internal i32 @{name}.kernel") } else { format!("i32 @{name}") };
        let mut entry = Function::new(self, format!("define {head}(ptr %context)"));
        let storages = entry.context_field(Field::Storages, "ptr");
        let mut args = String::from("ptr %context");
        for storage in &given {
            let at = entry.op(format_args!("getelementptr ptr, ptr {storages}, i64 {storage}"));
            let memory = entry.op(format_args!("load ptr, ptr {at}, align 8"));
            let _ = write!(args, ", ptr {memory}");
        }
        let code = entry.op(format_args!("call i32 @{name}.work({args})"));
        entry.ret(&code);
        entry.close();
        Ok(())
    }
}

/// Calls `f` for each register that the instruction reads, without registers read by nested instructions.
fn read(instr: &Instr, program: &Program, f: &mut impl FnMut(Reg)) {
    let form = |form: &Affine, f: &mut dyn FnMut(Reg)| form.terms.iter().for_each(|(reg, _)| f(*reg));
    match instr {
        Instr::Affine { form: of, .. } => form(of, f),
        Instr::Unary { a, .. } => f(*a),
        Instr::Binary { a, b, .. } => [*a, *b].into_iter().for_each(f),
        Instr::MulAdd { a, b, c, .. } => [*a, *b, *c].into_iter().for_each(f),
        Instr::Select { cond, then, otherwise, .. } => [*cond, *then, *otherwise].into_iter().for_each(f),
        Instr::Note(note) => {
            f(note.cond);
            note.within.iter().for_each(|(reg, _)| f(*reg));
        }
        Instr::Copy { src, .. } => f(*src),
        Instr::Load { access, .. } | Instr::Store { access, .. } => {
            if let Instr::Store { src, .. } = instr {
                f(*src);
            }
            access.index.iter().chain([&access.offset]).for_each(|of| form(of, f));
            let buffer = &program.buffers[access.buffer as usize];
            buffer.shape.iter().chain(&buffer.strides).chain([&buffer.offset]).for_each(|of| form(of, f));
        }
        Instr::Check { form: of, min, extent, .. } => [of, min, extent].into_iter().for_each(|of| form(of, f)),
        Instr::If { cond, .. } | Instr::Assert { cond, .. } | Instr::While { cond, .. } => f(*cond),
        Instr::For(of) => [&of.min, &of.extent].into_iter().for_each(|of| form(of, f)),
        Instr::Return(reg) => reg.iter().copied().for_each(f),
        Instr::Allocate { factors, .. } => factors.iter().for_each(|of| form(of, f)),
        Instr::Const { .. } | Instr::Break | Instr::Continue => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{Purpose, emit};
    use runtime::program::{Proven, lower};
    use script::NoOps;

    fn emitted(body: &str, hides_masks: bool) -> String {
        let params = "A: T.Buffer((64, 64), \"float32\"), C: T.Buffer((64, 64), \"float32\")";
        of_params(params, body, hides_masks)
    }

    fn of_params(params: &str, body: &str, hides_masks: bool) -> String {
        let head =
            "# from tvm.script import ir as I\n# from tvm.script import tirx as T\n\n@I.ir_module\nclass Module:\n";
        let lines: String = body.lines().map(|line| format!("        {line}\n")).collect();
        let text = format!("{head}    @T.prim_func(s_tir=True)\n    def f({params}):\n{lines}");
        let module = script::read(&text, &NoOps).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let program = lower(module.get("f").expect("a function")).expect("it lowers");
        let purpose = Purpose { watched: false, half: true, mul_add: true, standalone: false, hides_masks };
        emit(&program, &Proven::of(&program), purpose).expect("it is emitted").text
    }

    /// Counts the selects that keep the old values of masked lanes.
    fn kept(text: &str) -> usize {
        text.lines().filter(|line| line.contains(" = select <16 x i1>") && line.contains("<16 x float>")).count()
    }

    /// Returns a function with a tile at row ends, whose sum is updated under `condition`.
    fn tile(condition: &str) -> String {
        format!(
            "for p in T.parallel(8):
    B = T.alloc_local((4, 16))
    for i in T.unroll(4):
        for l in T.vectorized(16):
            if p % 4 * 16 + l < 55:
                B[i, l] = T.float32(0)
    for k in range(64):
        for i in T.unroll(4):
            for l in T.vectorized(16):
                if {condition}:
                    B[i, l] = B[i, l] + A[k, p % 4 * 16 + l] * A[i, k]
    for i in range(4):
        for l in T.vectorized(16):
            if p % 4 * 16 + l < 55:
                C[i, p % 4 * 16 + l] = B[i, l]"
        )
    }

    /// Equal sums, quotients and remainders are recognized even if computed in different places.
    #[test]
    fn tiles_at_the_end_of_rows_have_no_masks() {
        assert_eq!(kept(&emitted(&tile("p % 4 * 16 + l < 55"), false)), 0);
        assert_eq!(kept(&emitted(&tile("p % 4 * 16 + l < 54"), false)), 2);
        assert_eq!(kept(&emitted(&tile("p % 8 * 16 + l < 55"), false)), 2);
    }

    /// The end of a row need not be constant, and a store may execute in all lanes.
    #[test]
    fn tiles_need_the_conditions_of_stores_where_they_are_loaded() {
        let kept_with = |condition: &str| {
            kept(&emitted(
                &format!(
                    "for q, p in T.grid(64, 4):
    B = T.alloc_local((4, 16))
    for i in T.unroll(4):
        for l in T.vectorized(16):
            B[i, l] = T.float32(0)
    for k in range(64):
        for i in T.unroll(4):
            for l in T.vectorized(16):
                if p * 16 + l < q:
                    B[i, l] = B[i, l] + A[k, p * 16 + l] * A[i, k]
    for i in range(4):
        for l in T.vectorized(16):
            if {condition}:
                C[i, p * 16 + l] = B[i, l]"
                ),
                false,
            ))
        };
        assert_eq!((kept_with("p * 16 + l < q"), kept_with("i + p < q and p * 16 + l < q")), (0, 0));
        assert_eq!((kept_with("p * 16 + l < q + 1"), kept_with("i + p < q")), (1, 1));
    }

    /// Quotients and remainders by an extent are within the extents, and together determine the iteration.
    #[test]
    fn fused_loops_over_symbolic_extents_have_threads_and_vectors() {
        let loops = |n: &str, row: &str, column: &str| {
            let body = format!(
                "for f in T.parallel(m * {n} * 4):
    for l in T.vectorized(16):
        if f % 4 * 16 + l < 60:
            C[{row}, {column}, f % 4 * 16 + l] = A[{row}, {column}, f % 4 * 16 + l] + T.float32(1)"
            );
            let text = of_params(
                "a: T.handle, c: T.handle",
                &format!(
                    "m = T.int64()
n = T.int64()
A = T.match_buffer(a, (m, {n}, 64), \"float32\")
C = T.match_buffer(c, (m, {n}, 64), \"float32\")
{body}"
                ),
                false,
            );
            (text.contains(".part1.work("), text.contains("fadd <16 x float>"))
        };
        assert_eq!(loops("n", "f // 4 // n", "f // 4 % n"), (true, true));
        assert_eq!(loops("8", "f // 32", "f % 32 // 4"), (true, true));
        let several = "several iterations of `f` write an element";
        assert_eq!(loops("n", "f // 4 // n", "T.min(f // 4 % n, 3)"), (false, true), "{several}");
    }

    /// Threads get the values that the code around a loop computes, but constants are part of their code.
    #[test]
    fn constants_are_not_passed_to_threads() {
        let given = |value: &str| {
            let body = format!(
                "for q in range(8):\n    for p in T.parallel(8):\n        for l in T.vectorized(16):\n            if l < {value}:\n                C[q * 8 + p, l] = T.float32(1.5) * A[q * 8 + p, l]"
            );
            let text = emitted(&body, false);
            let head = text.lines().find(|line| line.contains(".part1.work(") && line.starts_with("define"));
            head.expect("a loop on threads").matches(" %given").count()
        };
        assert_eq!((given("13"), given("T.min(q, 13)")), (1, 2));
    }

    #[test]
    fn masks_are_hidden_from_each_other() {
        let [seen, hidden] = [false, true].map(|hides| emitted(&tile("p % 8 * 16 + l < 55"), hides));
        let asms = |text: &str| text.matches("asm sideeffect").count();
        assert_eq!((asms(&seen), asms(&hidden)), (0, kept(&hidden)));
    }

    #[test]
    fn not_all_loops_are_unrolled() {
        let lines = |kind: &str, n: usize| -> usize {
            let one = |k| {
                format!(
                    "for p{k} in {kind}(4):\n    for i{k} in T.unroll(64):\n        C[p{k}, i{k}] = A[p{k}, i{k}] + A[i{k}, {k}]"
                )
            };
            let body: Vec<String> = (0..n).map(one).collect();
            emitted(&body.join("\n"), false).matches("llvm.loop.unroll.full").count()
        };
        assert_eq!(lines("range", 3), 3);
        for kind in ["range", "T.parallel"] {
            let granted = lines(kind, 60);
            assert!((20..59).contains(&granted), "{granted}");
        }
    }
}
