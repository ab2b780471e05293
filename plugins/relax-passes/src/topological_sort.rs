//! Sorts the bindings of dataflow blocks topologically.

use plugin_api::prelude::*;
use plugin_api::walk::users::Regions;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

declare_pass! {
    /// Sorts the bindings of dataflow blocks in the order of a depth-first or breadth-first search of the dependency
    /// graph.
    ///
    /// The search starts at the parameters, or at the results. Expects any function. Results do not change. Keeps all
    /// bindings outside dataflow blocks, and the order of a call that writes to its argument relative to the calls that
    /// read the argument. A block does not change if it defines a local function, or if a symbolic variable would be
    /// used before the match_cast that defines it.
    ///
    /// ```relax before
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         a = R.exp(x)
    ///         b = R.negative(x)
    ///         c = R.nn.relu(a)
    ///         d = R.add(b, c)
    ///         R.output(d)
    ///     return d
    /// ```
    /// ```relax after
    /// @R.function
    /// def main(x: R.Tensor((2, 3), "float32")):
    ///     with R.dataflow():
    ///         a = R.exp(x)
    ///         c = R.nn.relu(a)
    ///         b = R.negative(x)
    ///         d = R.add(b, c)
    ///         R.output(d)
    ///     return d
    /// ```
    pub function pass TOPOLOGICAL_SORT = "relax.TopologicalSort" {
        opt_level: 0,
        preserves: ["relax.Normalize", "relax.anf"],
        options: Options {
            /// `depth-first` or `breadth-first`.
            order: String in ["depth-first", "breadth-first"] = "depth-first",
            /// `from-inputs` or `from-outputs`.
            direction: String in ["from-inputs", "from-outputs"] = "from-inputs",
        },
        run: topological_sort,
    }
}

fn topological_sort(body: &Body, options: &Options, ctx: &Ctx) -> Result<Body, PassError> {
    let (depth_first, from_inputs) = (options.order == "depth-first", options.direction == "from-inputs");
    let (mut edit, regions, in_place) = (body.edit(), body.regions(), InPlace::of(body));
    let mut sorted = 0;
    for function in body.values().filter_map(Value::as_function) {
        let graph = Graph::of(function.value(), &regions, &in_place);
        let ranks = graph.search(depth_first, from_inputs);
        for block in blocks_of(function) {
            let mut order: Vec<Value<'_>> = block.bindings().collect();
            order.sort_by_key(|binding| graph.node(*binding).map(|node| ranks[node]));
            if defines_before_use(function, block, &order) {
                sorted += usize::from(edit.reorder(block, &order));
            }
        }
    }
    ctx.statistic("blocks sorted", sorted);
    Ok(edit.finish()?)
}

/// Returns the dataflow blocks of a function, including those in branches, but not those of nested functions. Blocks
/// that define a function are left out, because functions cannot be moved.
fn blocks_of<'b>(function: Function<'b>) -> impl Iterator<Item = Block<'b>> {
    let blocks = function.value().region().nodes_outside_functions();
    let blocks = blocks.filter_map(Value::as_block).filter(|block| block.is_dataflow());
    blocks.filter(|block| block.bindings().all(|binding| binding.as_function().is_none()))
}

/// Returns true if each symbolic variable that a match_cast of the block defines is used only after it, in the current
/// order.
fn defines_before_use(function: Function<'_>, block: Block<'_>, order: &[Value<'_>]) -> bool {
    let mut missing: BTreeSet<Sym> = BTreeSet::new();
    for cast in block.bindings().filter(|binding| binding.is_match_cast()) {
        cast.ty().to_owned().each_defined(&mut |sym| missing.extend([sym]));
    }
    // Saves the walk over most blocks.
    if missing.is_empty() {
        return true;
    }
    function.params().for_each(|param| {
        param.ty().to_owned().each_defined(&mut |sym| {
            missing.remove(&sym);
        })
    });
    order.iter().all(|binding| {
        if binding.is_match_cast() {
            binding.ty().to_owned().each_defined(&mut |sym| {
                missing.remove(&sym);
            });
        }
        let mut defined = true;
        binding.each_symbol(&mut |sym| defined &= !missing.contains(&sym));
        defined
    })
}

/// The use graph of a function. Parameters and bindings are numbered by position; an input node precedes all others,
/// and an output node follows them.
struct Graph<'b> {
    function: Value<'b>,
    /// The users of each node.
    users: Vec<Vec<usize>>,
    /// The nodes that each node uses.
    needs: Vec<Vec<usize>>,
    /// The bindings of scalars, by symbolic variable.
    scalars: BTreeMap<Sym, usize>,
    input: usize,
    output: usize,
}

impl<'b> Graph<'b> {
    fn of(function: Value<'b>, regions: &Regions<'b>, in_place: &InPlace<'b>) -> Graph<'b> {
        let n = function.region().nodes().len();
        let none = vec![Vec::new(); n + 2];
        let mut graph =
            Graph { function, users: none.clone(), needs: none, scalars: BTreeMap::new(), input: n, output: n + 1 };
        for value in function.region().nodes() {
            graph.scalars.extend(value.symbol().zip(graph.node(value)));
            match (value.view(), graph.node(value)) {
                (Expr::Param, Some(param)) => graph.add(graph.input, param),
                (Expr::Yield(_), _) => {
                    let user = result_of(regions, value, function).and_then(|binding| graph.node(binding));
                    graph.uses(value, user.unwrap_or(graph.output));
                }
                (_, Some(binding)) if value.is_binding() => graph.uses(value, binding),
                _ => {}
            }
        }
        graph.keep_order_of_writes(in_place);
        graph.close();
        graph
    }

    /// Returns the node of a value in the function.
    fn node(&self, value: Value<'_>) -> Option<usize> {
        self.function.region().position(value)
    }

    fn add(&mut self, need: usize, user: usize) {
        self.users[need].push(user);
        self.needs[user].push(need);
    }

    /// Adds the variables that a value uses, in the order of the text, then the scalars that its type mentions. This is
    /// TVM's visiting order.
    fn uses(&mut self, value: Value<'_>, user: usize) {
        let mut work: Vec<Value<'_>> = value.operands().rev().collect();
        while let Some(operand) = work.pop() {
            match self.node(operand) {
                Some(need) if operand.is_bound() => self.add(need, user),
                _ if operand.is_nested() => work.extend(operand.operands().rev()),
                _ if operand.is_leaf() => self.uses_scalars(operand, user),
                _ => {}
            }
        }
        self.uses_scalars(value, user);
    }

    fn uses_scalars(&mut self, value: Value<'_>, user: usize) {
        let mut mentioned = Vec::new();
        value.each_symbol(&mut |sym| mentioned.extend(self.scalars.get(&sym).filter(|scalar| **scalar != user)));
        mentioned.into_iter().for_each(|scalar| self.add(scalar, user));
    }

    /// Orders a call that writes to its argument after earlier readers of that argument, and before later readers.
    fn keep_order_of_writes(&mut self, in_place: &InPlace<'b>) {
        let blocks = self.function.as_function().into_iter().flat_map(blocks_of).filter(|_| !in_place.is_empty());
        for bindings in blocks.map(|block| block.bindings().collect::<Vec<_>>()) {
            for (at, earlier) in in_place.order(&bindings).into_iter().enumerate() {
                let Some(user) = self.node(bindings[at]) else { continue };
                let needs: Vec<usize> = earlier.into_iter().filter_map(|other| self.node(bindings[other])).collect();
                needs.into_iter().for_each(|need| self.add(need, user));
            }
        }
    }

    /// Connects nodes without operands to the input node, and nodes without users to the output node. These edges
    /// precede the other operands of the output node.
    fn close(&mut self) {
        let bindings = self.function.region().nodes().filter(|value| value.is_binding());
        let bindings: Vec<usize> = bindings.filter_map(|binding| self.node(binding)).collect();
        let free =
            |edges: &[Vec<usize>]| bindings.iter().copied().filter(|at| edges[*at].is_empty()).collect::<Vec<_>>();
        let (without_needs, mut unused) = (free(&self.needs), free(&self.users));
        without_needs.into_iter().for_each(|binding| self.add(self.input, binding));
        unused.iter().for_each(|binding| self.users[*binding].push(self.output));
        unused.append(&mut self.needs[self.output]);
        self.needs[self.output] = unused;
    }

    /// Returns the rank of each node in the order of the search.
    fn search(&self, depth_first: bool, from_inputs: bool) -> Vec<usize> {
        let (forward, backward, start) = match from_inputs {
            true => (&self.users, &self.needs, self.input),
            false => (&self.needs, &self.users, self.output),
        };
        // For each node, the number of edges from unvisited nodes.
        let mut missing: Vec<usize> = backward.iter().map(Vec::len).collect();
        let mut ranks = vec![usize::MAX; forward.len()];
        let (mut visited, mut work) = (0, VecDeque::from([start]));
        while let Some(node) = if depth_first { work.pop_back() } else { work.pop_front() } {
            if ranks[node] != usize::MAX {
                continue;
            }
            ranks[node] = visited;
            visited += 1;
            forward[node].iter().for_each(|next| missing[*next] -= 1);
            let ready = forward[node].iter().filter(|next| missing[**next] == 0 && ranks[**next] == usize::MAX);
            // The stack is last in, first out, so the first user, or the last operand, is pushed last.
            match depth_first && from_inputs {
                true => work.extend(ready.rev()),
                false => work.extend(ready),
            }
        }
        if !from_inputs {
            ranks.iter_mut().filter(|rank| **rank != usize::MAX).for_each(|rank| *rank = visited - *rank);
        }
        ranks
    }
}

/// Returns the If or local function whose result a YIELD gives; `None` for the result of the whole function.
fn result_of<'b>(regions: &Regions<'b>, result: Value<'b>, function: Value<'b>) -> Option<Value<'b>> {
    let mut around = regions.around(result)?;
    while around != function {
        if around.is_binding() {
            return Some(around);
        }
        around = regions.around(around)?;
    }
    None
}
