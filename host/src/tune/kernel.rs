//! The kernels of a module with the schedules that the passes list for them.

use passhost_lang::ir::{Body, Module};

/// The attribute with the key of a kernel.
const KEY: &str = "tir.schedule_key";
/// The attribute with the schedules of a kernel: a list for each of its parts.
const CHOICES: &str = "tir.schedule_choices";

/// A kernel with several possible schedules.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The names of the functions that contain it.
    pub(crate) names: Vec<String>,
    pub(crate) key: String,
    /// The function before it is scheduled, without the lists.
    pub(crate) body: Body,
    /// The schedules of each part, each with its estimated time. The first schedule is the usual one.
    pub(crate) parts: Vec<Vec<(String, f64)>>,
}

/// Returns the kernels of a module, equal ones only once.
pub(crate) fn kernels(module: &Module) -> Vec<Kernel> {
    let mut out: Vec<Kernel> = Vec::new();
    for (name, body) in module.functions() {
        let Some(kernel) = kernel(name, body) else { continue };
        match out.iter_mut().find(|known| known.key == kernel.key) {
            Some(known) => known.names.push(name.to_string()),
            None => out.push(kernel),
        }
    }
    out
}

fn kernel(name: &str, body: &Body) -> Option<Kernel> {
    let root = body.root();
    let key = root.attr(KEY)?.as_str()?.to_string();
    let part = |list: passhost_lang::ir::AttrView<'_>| -> Option<Vec<(String, f64)>> {
        let entry = |text: &str| {
            let (schedule, estimate) = text.split_once(' ')?;
            Some((schedule.to_string(), estimate.parse().ok()?))
        };
        list.items().map(|item| entry(item.as_str()?)).collect()
    };
    let parts: Option<Vec<_>> = root.attr(CHOICES)?.items().map(part).collect();
    let mut edit = body.edit();
    edit.remove_attr(root, KEY);
    edit.remove_attr(root, CHOICES);
    Some(Kernel { names: vec![name.to_string()], key, body: edit.finish().ok()?, parts: parts? })
}
