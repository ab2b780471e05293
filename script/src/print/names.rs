//! Assigns names to the variables and symbolic variables of one function, and determines where each symbolic variable
//! is declared.

use super::Printer;
use super::text::{each_sym, is_valid_name, valid_name};
use passhost_lang::ir::records::{flag, kind};
use passhost_lang::ir::{Body, DType, Expr, Sym, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Names within one function.
pub(super) struct Names {
    /// The name of each node.
    nodes: Vec<Option<Box<str>>>,
    /// The name of each symbolic variable.
    pub(super) syms: Vec<String>,
    /// Symbolic variables of each function, by the node of the function.
    pub(super) syms_of: HashMap<usize, Syms>,
}

/// A symbolic variable of a function.
struct Brought {
    id: usize,
    dtype: DType,
    in_signature: bool,
}

/// Symbolic variables that a function introduces, by name.
#[derive(Default)]
pub(super) struct Syms {
    /// Variables in the signature.
    pub(super) signature: BTreeSet<String>,
    /// Variables defined in the body.
    pub(super) local: Vec<(usize, DType)>,
}

/// Names in use, with the last number appended to each.
pub(super) type Taken = HashMap<Box<str>, u32, foldhash::fast::RandomState>;

/// Returns true if a binding whose variable is unused can be printed as a statement, because its value is empty.
pub(super) fn can_be_statement(value: Value<'_>) -> bool {
    let void = value.ty().is_tuple() && value.ty().children().len() == 0;
    void && !matches!(value.kind(), kind::IF | kind::MATCH_CAST | kind::FUNC | kind::PARAM)
}

impl Names {
    pub(super) fn new(body: &Body, printer: &mut Printer<'_>) -> Names {
        let n_syms = body.raw().var_names().len();
        let mut names = Names { nodes: vec![None; body.len()], syms: Vec::new(), syms_of: HashMap::new() };
        names.syms.extend((0..n_syms).map(|id| valid_name(body.sym_name(id as u32).unwrap_or("n"))));
        let (uses, parents) = if n_syms > 0 { (uses_of_syms(body), body.parents()) } else { Default::default() };
        // Symbolic variables of each function, in the order of their numbers.
        let mut brought: HashMap<usize, Vec<Brought>> = HashMap::new();
        let owners = owners(body, n_syms);
        for id in (0..n_syms).filter(|id| !owners.contains_key(id)) {
            // Unprinted variables need a name only if an index map defines them.
            if let Some(Uses { first, last, dtype }) = uses.get(&(id as u32)) {
                let mut of = function_around(body, &parents, *first);
                // A variable without a definition can also be used outside a nested function.
                while of != 0 && *last >= body.value_at(of).end() {
                    of = parents.get(of).map_or(0, |parent| function_around(body, &parents, *parent as usize));
                }
                let in_signature = of == *first && body.value_at(of).kind() == kind::FUNC;
                brought.entry(of).or_default().push(Brought { id, dtype: *dtype, in_signature });
            }
        }
        let mut used = Used::default();
        if brought.values().flatten().any(|own| !own.in_signature) {
            used.type_vars = printer.type_vars_of_module();
        }
        names.assign(body, &mut used, &brought);
        let alone = |(id, owner): (&usize, &Owner)| owner.spoken_of_before.is_none().then_some(*id as u32);
        printer.scalars = owners.iter().filter_map(alone).collect();
        for (id, owner) in owners {
            names.syms[id] = names.nodes[owner.at].as_deref().unwrap_or("_").to_string();
            if let Some(function) = owner.spoken_of_before {
                names.syms_of.entry(function).or_default().signature.insert(names.syms[id].clone());
            }
        }
        printer.uses_tir |= names.syms_of.values().any(|own| !own.local.is_empty());
        for name in names.syms_of.get(&0).iter().flat_map(|root| &root.signature) {
            printer.declare_type_var(name.clone());
        }
        printer.taken = used.taken;
        names
    }

    /// Assigns names in program order; names in a branch or nested function can be reused after it.
    fn assign(&mut self, body: &Body, used: &mut Used, brought: &HashMap<usize, Vec<Brought>>) {
        let mut frames: Vec<(usize, usize)> = Vec::new();
        let (mut uses, mut flow_end) = (None, 0);
        for value in body.values() {
            let at = value.index().unwrap_or(0);
            while frames.last().is_some_and(|(end, _)| *end <= at) {
                if let Some((_, mark)) = frames.pop() {
                    used.release(mark);
                }
            }
            if value.kind() == kind::DATAFLOW {
                flow_end = value.end();
            }
            if value.is_bound() && at > 0 {
                let hint = value.name().unwrap_or("v");
                let is_output = at < flow_end && !value.has(flag::INNER);
                let mut is_used =
                    || is_output || uses.get_or_insert_with(|| used_nodes(body)).get(at).copied().unwrap_or(true);
                self.nodes[at] = Some(match hint {
                    // A value named `_` cannot be referred to.
                    "_" if value.kind() == kind::PARAM || value.symbol().is_some() || is_used() => {
                        used.fresh("v").into()
                    }
                    "_" => "_".into(),
                    _ if can_be_statement(value) && !is_used() => "_".into(),
                    hint => used.fresh_or_keep(hint),
                });
            }
            if at > 0 && matches!(value.kind(), kind::BRANCH | kind::FUNC) {
                frames.push((value.end(), used.mark()));
            }
            if let Some(own) = brought.get(&at).filter(|_| value.kind() == kind::FUNC) {
                self.bring(at, own, used);
            }
        }
    }

    /// Names the symbolic variables of a function.
    fn bring(&mut self, at: usize, own: &[Brought], used: &mut Used) {
        let syms_of = self.syms_of.entry(at).or_default();
        for Brought { id, dtype, in_signature } in own {
            let hint = &self.syms[*id];
            let name = if *in_signature { used.fresh(hint) } else { used.fresh_local(hint) };
            match in_signature {
                true => {
                    used.avoided.entry(name.as_str().into()).or_default();
                    syms_of.signature.insert(name.clone());
                }
                false => syms_of.local.push((*id, *dtype)),
            }
            self.syms[*id] = name;
        }
    }

    pub(super) fn node(&self, index: usize) -> &str {
        self.nodes.get(index).and_then(Option::as_deref).unwrap_or("_")
    }
}

/// Names in use.
#[derive(Default)]
struct Used {
    taken: Taken,
    log: Vec<Box<str>>,
    /// The names that are declared above the module, which TVM does not allow a body to define as symbolic variables.
    type_vars: Rc<HashSet<String>>,
    /// The names in `type_vars` that a body requested, and the names declared above nested functions.
    avoided: Taken,
}

impl Used {
    fn fresh_or_keep(&mut self, hint: &str) -> Box<str> {
        match hint {
            hint if is_valid_name(hint) => self.fresh(hint).into_boxed_str(),
            hint => self.fresh(&valid_name(hint)).into_boxed_str(),
        }
    }

    fn fresh(&mut self, hint: &str) -> String {
        let Some(count) = self.taken.get_mut(hint) else {
            self.take(hint);
            return hint.to_string();
        };
        let mut i = *count + 1;
        let mut name = format!("{hint}_{i}");
        while self.taken.contains_key(name.as_str()) {
            i += 1;
            name = format!("{hint}_{i}");
        }
        if let Some(count) = self.taken.get_mut(hint) {
            *count = i;
        }
        self.take(&name);
        name
    }

    /// Names a symbolic variable defined in a body.
    fn fresh_local(&mut self, hint: &str) -> String {
        if self.type_vars.contains(hint) {
            self.avoided.entry(hint.into()).or_default();
        }
        let Some(mut i) = self.taken.get(hint).max(self.avoided.get(hint)).copied() else {
            self.take(hint);
            return hint.to_string();
        };
        let name = loop {
            i += 1;
            let name = format!("{hint}_{i}");
            let is_type_var = self.type_vars.contains(&name) || self.avoided.contains_key(name.as_str());
            if !is_type_var && !self.taken.contains_key(name.as_str()) {
                break name;
            }
        };
        for counts in [&mut self.taken, &mut self.avoided] {
            counts.entry(hint.into()).and_modify(|count| *count = i);
        }
        self.take(&name);
        name
    }

    fn take(&mut self, name: &str) {
        self.taken.insert(name.into(), 0);
        self.log.push(name.into());
    }

    fn mark(&self) -> usize {
        self.log.len()
    }

    fn release(&mut self, mark: usize) {
        for name in self.log.drain(mark..) {
            self.taken.remove(&name);
        }
    }
}

/// Returns, for each node, true if it is referred to.
fn used_nodes(body: &Body) -> Vec<bool> {
    let mut used = vec![false; body.len()];
    for operand in body.values().flat_map(Value::operands) {
        if let Some(used) = operand.index().and_then(|at| used.get_mut(at)) {
            *used = true;
        }
    }
    used
}

/// The scalar variable that a symbolic variable represents.
struct Owner {
    at: usize,
    /// The function with this parameter, if the type of an earlier parameter mentions it.
    spoken_of_before: Option<usize>,
}

fn owners(body: &Body, n_syms: usize) -> HashMap<usize, Owner> {
    let mut found: HashMap<usize, Owner> = HashMap::new();
    if n_syms == 0 {
        return found;
    }
    let mut function = 0;
    let mut before = BTreeSet::new();
    for (at, value) in body.values().enumerate() {
        match value.kind() {
            kind::FUNC => {
                function = at;
                before.clear();
            }
            kind::PARAM if value.symbol().is_none() => each_sym(&value.ty().to_owned(), &mut |sym| {
                before.insert(sym.id);
            }),
            _ => {}
        }
        if let Some(sym) = value.symbol() {
            let spoken_of_before = (value.kind() == kind::PARAM && before.contains(&sym.id)).then_some(function);
            found.entry(sym.id as usize).or_insert(Owner { at, spoken_of_before });
        }
    }
    found
}

/// The first and the last use of a symbolic variable, and its data type.
struct Uses {
    first: usize,
    last: usize,
    dtype: DType,
}

/// Returns the printed uses of each symbolic variable, without the types of other functions. The header of a function
/// precedes its content, and its type includes its signature.
fn uses_of_syms(body: &Body) -> HashMap<u32, Uses> {
    let mut found = HashMap::new();
    for (at, value) in body.values().enumerate() {
        let mut add = |sym: Sym| {
            found.entry(sym.id).or_insert(Uses { first: at, last: at, dtype: sym.dtype }).last = at;
        };
        if value.is_bound() || matches!(value.kind(), kind::FUNC | kind::MATCH_CAST) {
            each_sym(&value.ty().to_owned(), &mut add);
        }
        for operand in value.operands().filter(|operand| operand.is_leaf()) {
            if let Expr::TypeArg(ty) = operand.view() {
                each_sym(&ty.to_owned(), &mut add);
            }
            operand.dims().into_iter().flatten().chain(operand.dim()).for_each(|dim| dim.vars(&mut add));
        }
    }
    found
}

/// Returns the function around a node that is not a function itself.
fn function_around(body: &Body, parents: &[u32], at: usize) -> usize {
    let mut at = at;
    while at != 0 && body.value_at(at).kind() != kind::FUNC {
        at = parents.get(at).map_or(0, |parent| if *parent == u32::MAX { 0 } else { *parent as usize });
    }
    at
}
