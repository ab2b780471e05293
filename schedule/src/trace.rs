//! The primitives applied to a schedule, as text that can be parsed and applied again.

use super::tree::{Id, Tree};
use super::{Accessed, BlockRef, LoopRef, Schedule};
use passhost_lang::ir::Body;
use passhost_lang::{PassError, bail, pass_error};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// The applied primitives, one per line. Blocks and loops are named by earlier lines.
///
/// ```
/// use plugin_api::schedule::Trace;
///
/// let text = "b0 = get_block(\"C\")\nl0, l1, l2 = get_loops(b0)\nl3, l4 = split(l0, [None, 8])\nreorder([l3, l1, l4])\n";
/// let trace: Trace = text.parse()?;
/// assert_eq!((trace.len(), trace.to_string()), (4, text.to_string()));
/// # Ok::<(), plugin_api::PassError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    outs: Vec<String>,
    name: String,
    args: Vec<Arg>,
}

/// An argument of a primitive.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arg {
    /// A block or loop.
    Name(String),
    Names(Vec<String>),
    Int(i64),
    Text(String),
    Factors(Vec<Option<i64>>),
}

/// The applied primitives, and the names of blocks and loops in the trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    trace: Trace,
    names: HashMap<Id, String, foldhash::fast::FixedState>,
    blocks: u32,
    loops: u32,
}

impl Log {
    fn block(&mut self, id: Id) -> String {
        let name = format!("b{}", self.blocks);
        self.blocks += 1;
        self.names.insert(id, name.clone());
        name
    }

    fn a_loop(&mut self, id: Id) -> String {
        let name = format!("l{}", self.loops);
        self.loops += 1;
        self.names.insert(id, name.clone());
        name
    }
}

impl Schedule {
    /// Returns the trace of the applied primitives.
    pub fn trace(&self) -> Trace {
        self.log.trace.clone()
    }

    /// Returns the argument that denotes a block. Adds a line that names the block if necessary.
    pub(super) fn block_arg(&mut self, id: Id) -> Arg {
        if let Some(name) = self.log.names.get(&id) {
            return Arg::Name(name.clone());
        }
        let text = self.tree.block_name(id).to_string();
        let same = self.tree.blocks_in(Tree::ROOT).into_iter().filter(|at| self.tree.block_name(*at) == text);
        let nth = same.take_while(|at| *at != id).count() as i64;
        let mut args = vec![Arg::Text(text)];
        if nth > 0 {
            args.push(Arg::Int(nth));
        }
        let name = self.log.block(id);
        self.log.trace.steps.push(Step { outs: vec![name.clone()], name: "get_block".to_string(), args });
        Arg::Name(name)
    }

    /// Returns the argument that denotes a loop. If the loop is unnamed, adds a line that names the loops around one of
    /// its blocks.
    pub(super) fn loop_arg(&mut self, id: Id) -> Arg {
        if let Some(name) = self.log.names.get(&id) {
            return Arg::Name(name.clone());
        }
        let Some(block) = self.tree.blocks_in(id).first().copied() else { return Arg::Name("_".to_string()) };
        let of = self.block_arg(block);
        let loops = self.tree.loops_around(block);
        let outs = loops.iter().map(|id| self.log.a_loop(*id)).collect();
        self.log.trace.steps.push(Step { outs, name: "get_loops".to_string(), args: vec![of] });
        Arg::Name(self.log.names.get(&id).cloned().unwrap_or_else(|| "_".to_string()))
    }

    pub(super) fn loops_arg(&mut self, ids: &[Id]) -> Arg {
        let name = |arg| match arg {
            Arg::Name(name) => name,
            _ => "_".to_string(),
        };
        Arg::Names(ids.iter().map(|id| name(self.loop_arg(*id))).collect())
    }

    /// Records an applied primitive, and the loops or blocks that it created.
    pub(super) fn record(&mut self, primitive: &str, args: Vec<Arg>, made: &[Id]) {
        let outs = made.iter().map(|id| match self.tree.as_block(*id) {
            Some(_) => self.log.block(*id),
            None => self.log.a_loop(*id),
        });
        let outs = outs.collect();
        self.log.trace.steps.push(Step { outs, name: primitive.to_string(), args });
    }
}

impl Trace {
    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns true if no primitive was applied.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Applies the primitives to a function.
    ///
    /// # Errors
    /// The error of the first primitive that cannot be applied, with its line.
    pub fn apply(&self, body: &Body) -> Result<Body, PassError> {
        let mut schedule = Schedule::new(body)?;
        self.apply_to(&mut schedule)?;
        schedule.finish()
    }

    /// Applies the primitives to a schedule.
    ///
    /// # Errors
    /// As for [`Trace::apply`].
    pub fn apply_to(&self, schedule: &mut Schedule) -> Result<(), PassError> {
        let mut known: HashMap<&str, Handle> = HashMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            let made = apply(step, schedule, &known)
                .map_err(|error| pass_error!("line {} of the trace, `{step}`: {}", at + 1, error.message))?;
            if made.len() != step.outs.len() {
                bail!("line {} of the trace, `{step}`: it returns {} blocks or loops", at + 1, made.len());
            }
            known.extend(step.outs.iter().map(String::as_str).zip(made));
        }
        Ok(())
    }
}

/// A block or loop that a line defines.
#[derive(Clone, Copy)]
enum Handle {
    Block(BlockRef),
    Loop(LoopRef),
}

/// The arguments of a line.
struct Args<'s> {
    step: &'s Step,
    known: &'s HashMap<&'s str, Handle>,
}

impl Args<'_> {
    fn handle(&self, name: &str) -> Result<Handle, PassError> {
        let handle = self.known.get(name).copied();
        handle.ok_or_else(|| pass_error!("`{name}` is not defined on an earlier line"))
    }

    fn block(&self, at: usize) -> Result<BlockRef, PassError> {
        match self.step.args.get(at) {
            Some(Arg::Name(name)) => match self.handle(name)? {
                Handle::Block(block) => Ok(block),
                Handle::Loop(_) => Err(pass_error!("expected a block, but `{name}` is a loop")),
            },
            _ => Err(pass_error!("argument {at} must be a block")),
        }
    }

    fn a_loop(&self, at: usize) -> Result<LoopRef, PassError> {
        match self.step.args.get(at) {
            Some(Arg::Name(name)) => self.loop_called(name),
            _ => Err(pass_error!("argument {at} must be a loop")),
        }
    }

    fn loop_called(&self, name: &str) -> Result<LoopRef, PassError> {
        match self.handle(name)? {
            Handle::Loop(of) => Ok(of),
            Handle::Block(_) => Err(pass_error!("expected a loop, but `{name}` is a block")),
        }
    }

    fn loops(&self) -> Result<Vec<LoopRef>, PassError> {
        match self.step.args.first() {
            Some(Arg::Names(names)) => names.iter().map(|name| self.loop_called(name)).collect(),
            _ => Err(pass_error!("argument 0 must be a list of loops")),
        }
    }

    fn int(&self, at: usize) -> Result<usize, PassError> {
        match self.step.args.get(at) {
            Some(Arg::Int(value)) => {
                usize::try_from(*value).map_err(|_| pass_error!("argument {at} must not be negative"))
            }
            None => Ok(0),
            _ => Err(pass_error!("argument {at} must be an integer")),
        }
    }

    fn text(&self, at: usize) -> Result<&str, PassError> {
        match self.step.args.get(at) {
            Some(Arg::Text(text)) => Ok(text),
            _ => Err(pass_error!("argument {at} must be a string")),
        }
    }

    fn factors(&self) -> Result<&[Option<i64>], PassError> {
        match self.step.args.get(1) {
            Some(Arg::Factors(factors)) => Ok(factors),
            _ => Err(pass_error!("argument 1 must be a list of factors")),
        }
    }

    fn accessed(&self) -> Result<Accessed, PassError> {
        match self.text(1)? {
            "read" => Ok(Accessed::Read(self.int(2)?)),
            "write" => Ok(Accessed::Write(self.int(2)?)),
            other => Err(pass_error!("argument 1 must be \"read\" or \"write\", found {other:?}")),
        }
    }

    fn order(&self) -> Result<Vec<usize>, PassError> {
        let wrong = || pass_error!("argument 3 must be a list of dimensions");
        let Some(Arg::Factors(order)) = self.step.args.get(3) else { return Err(wrong()) };
        order.iter().map(|at| at.and_then(|at| usize::try_from(at).ok()).ok_or_else(wrong)).collect()
    }
}

fn apply(step: &Step, sch: &mut Schedule, known: &HashMap<&str, Handle>) -> Result<Vec<Handle>, PassError> {
    let args = Args { step, known };
    let (nothing, blocks) = (|()| Vec::new(), |block| vec![Handle::Block(block)]);
    let loops = |made: Vec<LoopRef>| made.into_iter().map(Handle::Loop).collect();
    match step.name.as_str() {
        "get_block" => sch.nth_block(args.text(0)?, args.int(1)?).map(blocks),
        "get_loops" => sch.get_loops(args.block(0)?).map(loops),
        "split" => sch.split_by(args.a_loop(0)?, args.factors()?).map(loops),
        "fuse" => sch.fuse(&args.loops()?).map(|fused| vec![Handle::Loop(fused)]),
        "reorder" => sch.reorder(&args.loops()?).map(nothing),
        "vectorize" => sch.vectorize(args.a_loop(0)?).map(nothing),
        "parallel" => sch.parallel(args.a_loop(0)?).map(nothing),
        "unroll" => sch.unroll(args.a_loop(0)?).map(nothing),
        "assume" => sch.assume(args.a_loop(0)?, args.int(1)? as i64).map(nothing),
        "decompose_reduction" => sch.decompose_reduction(args.block(0)?, args.a_loop(1)?).map(blocks),
        "compute_inline" => sch.compute_inline(args.block(0)?).map(nothing),
        "reverse_compute_inline" => sch.reverse_compute_inline(args.block(0)?).map(nothing),
        "compute_at" => sch.compute_at(args.block(0)?, args.a_loop(1)?).map(nothing),
        "reverse_compute_at" => sch.reverse_compute_at(args.block(0)?, args.a_loop(1)?).map(nothing),
        "cache_read" => sch.cache_read(args.block(0)?, args.int(1)?, args.text(2)?).map(blocks),
        "cache_write" => sch.cache_write(args.block(0)?, args.int(1)?, args.text(2)?).map(blocks),
        "transform_layout" => sch.transform_layout(args.block(0)?, args.accessed()?, &args.order()?).map(nothing),
        "compute_whole_tiles" => sch.compute_whole_tiles(args.block(0)?, args.a_loop(1)?).map(nothing),
        other => Err(pass_error!("unknown primitive `{other}`")),
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.outs.is_empty() {
            write!(f, "{} = ", self.outs.join(", "))?;
        }
        let args: Vec<String> = self.args.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.name, args.join(", "))
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |factor: &Option<i64>| factor.map_or("None".to_string(), |factor| factor.to_string());
        match self {
            Arg::Name(name) => f.write_str(name),
            Arg::Names(names) => write!(f, "[{}]", names.join(", ")),
            Arg::Int(value) => write!(f, "{value}"),
            Arg::Text(text) => write!(f, "{text:?}"),
            Arg::Factors(factors) => write!(f, "[{}]", factors.iter().map(factor).collect::<Vec<_>>().join(", ")),
        }
    }
}

impl FromStr for Trace {
    type Err = PassError;

    fn from_str(text: &str) -> Result<Trace, PassError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let steps = lines.map(|(at, line)| {
            read_step(line.trim()).ok_or_else(|| {
                pass_error!("line {} of the trace, `{}`: expected `names = primitive(arguments)`", at + 1, line.trim())
            })
        });
        Ok(Trace { steps: steps.collect::<Result<_, _>>()? })
    }
}

fn read_step(line: &str) -> Option<Step> {
    let open = line.find('(')?;
    let (head, args) = (&line[..open], line[open + 1..].strip_suffix(')')?);
    let (outs, name) = match head.split_once('=') {
        Some((outs, name)) => (outs.split(',').map(|out| out.trim().to_string()).collect(), name.trim()),
        None => (Vec::new(), head.trim()),
    };
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let args = split_args(args)?.into_iter().map(|arg| read_arg(arg.trim())).collect::<Option<Vec<Arg>>>()?;
    let all_words = is_word(name) && outs.iter().all(|out: &String| is_word(out));
    all_words.then(|| Step { outs, name: name.to_string(), args })
}

/// Splits arguments at commas outside lists and strings.
fn split_args(text: &str) -> Option<Vec<&str>> {
    let (mut out, mut from, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0i32, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                out.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        out.push(&text[from..]);
    }
    (depth == 0 && !quoted).then_some(out)
}

fn read_arg(text: &str) -> Option<Arg> {
    if let Some(inner) = text.strip_prefix('"') {
        return unquoted(inner.strip_suffix('"')?).map(Arg::Text);
    }
    if let Some(inner) = text.strip_prefix('[') {
        let parts: Vec<&str> = inner.strip_suffix(']')?.split(',').map(str::trim).collect();
        let factor = |part: &&str| match *part {
            "None" => Some(None),
            number => number.parse().ok().map(Some),
        };
        return Some(match parts.iter().map(factor).collect::<Option<Vec<_>>>() {
            Some(factors) => Arg::Factors(factors),
            None => Arg::Names(parts.into_iter().map(str::to_string).collect()),
        });
    }
    match text.parse() {
        Ok(value) => Some(Arg::Int(value)),
        Err(_) => (!text.is_empty()).then(|| Arg::Name(text.to_string())),
    }
}

/// Parses a string that was written with `{:?}`.
fn unquoted(text: &str) -> Option<String> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(escape(&mut chars)?),
            c => out.push(c),
        }
    }
    Some(out)
}

fn escape(chars: &mut std::str::Chars<'_>) -> Option<char> {
    match chars.next()? {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        '0' => Some('\0'),
        'u' => {
            let digits: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
            char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
        }
        c => Some(c),
    }
}
