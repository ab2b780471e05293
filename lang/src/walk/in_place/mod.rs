//! Finds in-place writes of calls to their arguments, and the resulting order of bindings.

mod memory;
mod written_params;

pub use written_params::WrittenParams;

use crate::ir::records::kind;
use crate::ir::{Body, Value};
use memory::{Memory, add};
use std::collections::{BTreeMap, HashMap, HashSet};
use written_params::Certainty;

type Map<T> = HashMap<u32, T, foldhash::fast::RandomState>;
type Set = HashSet<u32, foldhash::fast::RandomState>;

/// The values of a function whose memory is written to by a call, such as `R.call_tir_inplace`.
///
/// A call that writes to its argument is not an effect in the sense of [`Value::has_effect`], but it orders all reads and writes of that
/// memory. Passes that move, merge, group or remove bindings must check for such calls first:
///
/// | question | method |
/// |---|---|
/// | Can this binding be moved? | [`InPlace::may_move`] |
/// | Can these two bindings be merged? | [`InPlace::may_merge`] |
/// | Can these bindings become one call? | [`InPlace::may_group`] |
/// | Which order must these bindings keep? | [`InPlace::order`] |
/// | Is this memory ever written? | [`InPlace::is_written`] |
///
/// [`Matcher`](crate::pattern::Matcher), [`GroupedFunctions`](crate::rewrite::grouping::GroupedFunctions),
/// [`Edit::outline`](crate::rewrite::Edit::outline) and [`remove_all_unused`](crate::rewrite::remove_unused::remove_all_unused) check this
/// themselves.
///
/// Several values can share memory: a value and its aliases, reshapes and views; a tuple and its elements; tensors in the same storage; an
/// If and the results of its branches; an argument written in place and the result of the call; and a call and any argument that the
/// function may return. The parameters of a private function are assumed to share memory, because a call can pass the same value twice.
///
/// | call | writes to |
/// |---|---|
/// | `R.call_tir_inplace`, `R.call_inplace_packed` | the arguments listed in `inplace_indices` |
/// | a function of the module, if the module is analysed ([`InPlace::in_module`]) | the arguments that the function writes to |
/// | a function of the module, otherwise; a local function | possibly all arguments |
/// | other calls with effects, except printing, assertions and allocations | possibly all arguments |
///
/// ```
/// use plugin_api::prelude::*;
///
/// /// Whether a value keeps its elements as long as the function runs.
/// fn is_lasting<'b>(body: &'b Body, value: Value<'b>) -> bool {
///     !InPlace::of(body).is_written(value)
/// }
/// ```
pub struct InPlace<'b> {
    body: &'b Body,
    /// Empty if no call writes.
    memory: Memory<'b>,
    /// The writes by calls, by the position of the call.
    writes: BTreeMap<u32, Write>,
    /// The positions of the calls that write to each memory, in order.
    writers: Map<Vec<u32>>,
    /// Memory that is certainly written.
    written: Set,
}

/// The writes of a call.
struct Write {
    /// The written memories. Each is identified by its first value.
    roots: Vec<u32>,
    certainty: Certainty,
}

impl<'b> InPlace<'b> {
    /// Analyses the writes by calls in a function, without information about the called functions.
    pub fn of(body: &'b Body) -> InPlace<'b> {
        InPlace::new(body, None, false)
    }

    /// Analyses the writes by calls in a function of a module.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    /// use plugin_api::walk::in_place::WrittenParams;
    ///
    /// /// How many calls write to their arguments.
    /// fn writing_calls(module: &Module) -> usize {
    ///     let written = WrittenParams::of(module);
    ///     let functions = module.functions().filter(|(_, body)| body.function().is_some());
    ///     let writes = |body| {
    ///         let in_place = InPlace::in_module(body, &written);
    ///         Body::values(body).filter(|value| !in_place.writes(*value).is_empty()).count()
    ///     };
    ///     functions.map(|(_, body)| writes(body)).sum()
    /// }
    /// # assert_eq!(writing_calls(&Module::new::<&str>([])), 0);
    /// ```
    pub fn in_module(body: &'b Body, written: &WrittenParams) -> InPlace<'b> {
        InPlace::new(body, Some(written), false)
    }

    /// Like `in_module`, but with separate memory for each parameter, to find the parameters that the function writes to.
    fn of_params(body: &'b Body, written: &WrittenParams) -> InPlace<'b> {
        InPlace::new(body, Some(written), true)
    }

    fn new(body: &'b Body, functions: Option<&WrittenParams>, apart: bool) -> InPlace<'b> {
        let mut found = InPlace {
            body,
            memory: Memory::none(body),
            writes: BTreeMap::new(),
            writers: Map::default(),
            written: Set::default(),
        };
        if !written_params::any_may_write(body, functions) {
            return found;
        }
        found.memory = Memory::of(body, apart);
        let mut by_local_functions = Vec::new();
        for value in body.values() {
            if let Some(write) = found.written_by(value, functions) {
                found.writes.insert(value.word(), write);
            }
        }
        for local in body.values().filter(|value| value.as_function().is_some() && value.index() != Some(0)) {
            let inside = found.writes.range(local.region().range().start as u32..local.end() as u32);
            inside.for_each(|(_, write)| add(&mut by_local_functions, &write.roots));
        }
        let local_calls = body.values().filter(|value| written_params::calls_a_value(*value));
        for call in local_calls.filter(|_| !by_local_functions.is_empty()) {
            let write = found.writes.entry(call.word());
            add(
                &mut write.or_insert(Write { roots: Vec::new(), certainty: Certainty::Perhaps }).roots,
                &by_local_functions,
            );
        }
        for (at, write) in &found.writes {
            for root in &write.roots {
                found.writers.entry(*root).or_default().push(*at);
            }
            if write.certainty == Certainty::Certain {
                found.written.extend(&write.roots);
            }
        }
        found
    }

    /// Returns the writes of a node; `None` if it does not write.
    fn written_by(&self, value: Value<'b>, functions: Option<&WrittenParams>) -> Option<Write> {
        let (arguments, certainty) = written_params::written_arguments(value, functions)?;
        let mut roots = Vec::new();
        for argument in arguments {
            // Elements of a tuple literal are separate arguments.
            add(&mut roots, &self.memory.of_value(argument));
        }
        (!roots.is_empty()).then_some(Write { roots, certainty })
    }

    /// Returns true if certainly no call writes to an argument.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Returns the first value with the same memory; the value itself if it has several memories, like a tuple.
    pub fn memory(&self, value: Value<'b>) -> Value<'b> {
        match self.memory.of_value(value).as_slice() {
            [root] => Value::of_word(self.body, *root),
            _ => value,
        }
    }

    /// Returns true if a call certainly writes to the memory of a value. Merely possible writes, such as those of packed functions with an effect, do
    /// not count.
    pub fn is_written(&self, value: Value<'b>) -> bool {
        !self.written.is_empty() && self.memory.of_value(value).iter().any(|root| self.written.contains(root))
    }

    /// Returns true if a call may write to the memory of a value.
    pub fn may_be_written(&self, value: Value<'b>) -> bool {
        !self.is_empty() && self.memory.of_value(value).iter().any(|root| self.writers.contains_key(root))
    }

    /// Returns true if two values may share memory. Always false if [`InPlace::is_empty`].
    pub fn share(&self, a: Value<'b>, b: Value<'b>) -> bool {
        let other = self.memory.of_value(b);
        !self.is_empty() && self.memory.of_value(a).iter().any(|root| other.contains(root))
    }

    /// Returns the memory that a value certainly writes to, if it is an in-place call.
    pub fn writes(&self, value: Value<'b>) -> Vec<Value<'b>> {
        let write =
            self.writes.get(&value.word()).filter(|write| write.certainty == Certainty::Certain && !value.is_leaf());
        write.into_iter().flat_map(|write| &write.roots).map(|root| Value::of_word(self.body, *root)).collect()
    }

    /// Returns true if a statement, including nested expressions and branches, may write.
    pub fn has_write(&self, statement: Value<'b>) -> bool {
        !self.is_empty() && !self.accesses(statement).1.is_empty()
    }

    /// Returns true if a binding can be moved to the position of another value of its block: nothing in between writes to memory that the
    /// binding reads, or uses memory that it writes. Does not check the visibility of its operands.
    pub fn may_move(&self, binding: Value<'b>, to: Value<'b>) -> bool {
        let (Some(from), Some(to)) = (binding.index(), to.index()) else { return true };
        self.may_move_to(binding, if from < to { from..to } else { to..from })
    }

    /// Returns true if the binding can be moved past the given positions.
    pub(crate) fn may_move_to(&self, binding: Value<'b>, over: std::ops::Range<usize>) -> bool {
        if self.is_empty() {
            return true;
        }
        let (reads, writes) = self.accesses(binding);
        let own = statement_range(binding);
        let free = |root: &u32| {
            let at = self.writers.get(root).into_iter().flatten().map(|at| *at as usize);
            !at.into_iter().any(|at| over.contains(&at) && !own.contains(&at))
        };
        let untouched = || {
            let others = over.clone().filter(|at| !own.contains(at)).map(|at| self.body.value_at(at));
            !others.flat_map(Value::operands).any(|used| {
                let used = self.memory.of_value(used);
                writes.iter().any(|root| used.contains(root))
            })
        };
        reads.iter().chain(&writes).all(free) && (writes.is_empty() || untouched())
    }

    /// Returns true if a binding with the same computation as an earlier binding can become its alias: both read the same memory contents,
    /// and neither result is ever written. Two reads of one tuple element refer to the same memory, whatever is written there, so they can
    /// be merged unless that memory is released.
    pub fn may_merge(&self, first: Value<'b>, again: Value<'b>) -> bool {
        if self.is_empty() {
            return true;
        }
        if first.as_tuple_get().is_some() && again.as_tuple_get().is_some() {
            return !self.may_be_released(first);
        }
        let (Some(from), Some(to)) = (first.index(), again.index()) else { return true };
        let lasting = |value: Value<'b>| !self.may_be_written(value) && self.accesses(value).1.is_empty();
        lasting(first) && lasting(again) && self.may_move_to(first, from..to) && self.may_move_to(again, from..to)
    }

    /// Returns true if an operator such as `R.vm.kill_object` may release the memory of a value.
    fn may_be_released(&self, value: Value<'b>) -> bool {
        let roots = self.memory.of_value(value);
        let writers = roots.iter().filter_map(|root| self.writers.get(root)).flatten();
        let mut operators = writers.filter_map(|at| Value::of_word(self.body, *at).as_call()?.op());
        operators.any(|op| op.rsplit('.').next().is_some_and(|name| name.starts_with("kill_")))
    }

    /// Returns true if bindings of one block can become one function call at the position of the last binding: each binding can
    /// [move](InPlace::may_move) there, and they write only to memory that they create. A function built from such a group therefore does
    /// not write to its parameters.
    pub fn may_group(&self, bindings: &[Value<'b>]) -> bool {
        let Some(last) = bindings.iter().copied().max_by_key(|binding| binding.index()).filter(|_| !self.is_empty())
        else {
            return true;
        };
        self.writes_only_own(bindings)
            && bindings.iter().all(|binding| {
                let between = binding.index().unwrap_or(0)..last.index().unwrap_or(0);
                let inside = |at: usize| bindings.iter().any(|member| statement_range(*member).contains(&at));
                between.clone().all(|at| inside(at) || self.may_move_to(*binding, at..at + 1))
            })
    }

    /// Returns true if the bindings write only to memory that one of them created.
    pub(crate) fn writes_only_own(&self, bindings: &[Value<'b>]) -> bool {
        bindings.iter().flat_map(|binding| self.accesses(*binding).1).all(|root| {
            let made = |binding: &Value<'b>| statement_range(*binding).contains(&(root as usize));
            bindings.iter().any(made)
        })
    }

    /// For each of the given statements in program order, returns the numbers of the earlier statements that must stay before it because of
    /// a write. A write stays after all earlier reads and writes, and a read stays after the last write.
    pub fn order(&self, statements: &[Value<'b>]) -> Vec<Vec<usize>> {
        let mut after = vec![Vec::new(); statements.len()];
        if self.is_empty() {
            return after;
        }
        let (mut readers, mut writer): (Map<Vec<usize>>, Map<usize>) = Default::default();
        for (at, statement) in statements.iter().enumerate() {
            let (reads, writes) = self.accesses(*statement);
            for root in reads.iter().filter(|root| self.writers.contains_key(root)) {
                after[at].extend(writer.get(root));
                readers.entry(*root).or_default().push(at);
            }
            for root in &writes {
                after[at].extend(writer.insert(*root, at));
                after[at].extend(readers.remove(root).into_iter().flatten());
            }
            after[at].sort_unstable();
            after[at].dedup();
            after[at].retain(|other| *other != at);
        }
        after
    }

    /// Returns the memories that a statement reads and writes, including nested expressions and branches.
    fn accesses(&self, statement: Value<'b>) -> (Vec<u32>, Vec<u32>) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        statement.each_use(|_, _, used| add(&mut reads, &self.memory.of_value(used)));
        let inside = statement.region();
        for part in statement.with_nested().into_iter().chain(inside.nodes()) {
            let write = self.writes.get(&part.word()).filter(|_| !part.is_leaf());
            write.into_iter().for_each(|write| add(&mut writes, &write.roots));
        }
        (reads, writes)
    }

    /// Returns the memory that a statement writes to, for the removal of unused values. Writes by unanalysed functions of the module count;
    /// writes by packed and local functions do not.
    pub(crate) fn kept_writes(&self, statement: Value<'b>) -> Vec<u32> {
        let mut roots = Vec::new();
        for part in statement.with_nested().into_iter().chain(statement.region().nodes()).filter(|part| !part.is_leaf())
        {
            let write = self.writes.get(&part.word()).filter(|write| write.certainty != Certainty::Perhaps);
            write.into_iter().for_each(|write| add(&mut roots, &write.roots));
        }
        roots
    }

    /// Returns a value of the function with the lifetime of the analysis.
    pub(crate) fn own(&self, value: Value<'_>) -> Value<'b> {
        Value::of_word(self.body, value.word())
    }

    /// Returns the memories of a value, each as its first value.
    pub(crate) fn roots(&self, value: Value<'b>) -> Vec<u32> {
        self.memory.of_value(value)
    }

    /// Returns true for memory that exists before the function runs, that is, of a parameter or constant.
    pub(crate) fn is_from_outside(&self, root: u32) -> bool {
        let value = Value::of_word(self.body, root);
        value.is_leaf() || value.kind() == kind::PARAM
    }
}

/// Returns the positions of a statement, its nested expressions and its content.
fn statement_range(statement: Value<'_>) -> std::ops::Range<usize> {
    let first = statement.with_nested().into_iter().filter_map(Value::index).min();
    first.map_or(0..0, |first| first..statement.end().max(first + 1))
}
