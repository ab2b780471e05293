//! The virtual devices of a module and their memory scopes.

use plugin_api::prelude::*;

/// The virtual devices of a module.
pub(crate) struct Devices {
    scopes: Vec<String>,
    targets: Vec<Option<Target>>,
}

/// A target for which functions are compiled.
#[derive(Clone, PartialEq)]
pub(crate) struct Target {
    /// The value of the attribute `target` of a function.
    pub(crate) attr: Attr,
    /// The kind, such as `cuda`, as a part of a name.
    pub(crate) kind: String,
}

impl Target {
    fn of(given: AttrView<'_>) -> Option<Target> {
        let given = given.to_owned();
        let named = kind(&given)?;
        let kind = named.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let attr = match given {
            Attr::Object(..) => given,
            content => Attr::Object("T.target".to_string(), [(None, content)].into()),
        };
        Some(Target { attr, kind })
    }
}

/// Returns the name of the kind of a target, or its tag.
fn kind(target: &Attr) -> Option<&str> {
    match target {
        Attr::Str(name) => Some(name),
        Attr::Object(_, parts) => parts.first().and_then(|(_, part)| kind(part)),
        Attr::Dict(entries) => {
            let of = |key: &str| entries.iter().find(|(name, _)| *name == key).and_then(|(_, value)| kind(value));
            of("kind").or_else(|| of("tag"))
        }
        _ => None,
    }
}

impl Devices {
    pub(crate) fn of(module: &Module) -> Devices {
        let devices = module.global_infos().and_then(|infos| infos.get("vdevice"));
        // I.vdevice(target, vdevice_id, memory_scope)
        let scope = |device: AttrView<'_>| {
            let named = device.items().find(|part| part.key() == Some("memory_scope"));
            let third = || device.items().nth(2).filter(|part| part.key().is_none());
            named.or_else(third).and_then(|scope| scope.as_str()).unwrap_or("global").to_string()
        };
        let target = |device: AttrView<'_>| {
            let named = device.items().find(|part| part.key() == Some("target"));
            let first = || device.items().next().filter(|part| part.key().is_none());
            named.or_else(first).and_then(Target::of)
        };
        let all = || devices.into_iter().flat_map(AttrView::items);
        Devices { scopes: all().map(scope).collect(), targets: all().map(target).collect() }
    }

    /// Returns the target of the first device in a type.
    pub(crate) fn target_of(&self, ty: &Type) -> Option<&Target> {
        match ty {
            Type::Tensor(tensor) => self.targets.get(tensor.vdevice? as usize)?.as_ref(),
            Type::Tuple(fields) => fields.iter().find_map(|field| self.target_of(field)),
            _ => None,
        }
    }

    /// Returns the number and memory scope of a tensor's device. A tensor without a device is on the first device, in
    /// global memory.
    pub(crate) fn of_tensor(&self, tensor: &TensorType) -> (i64, &str) {
        match tensor.vdevice {
            Some(device) => (i64::from(device), self.scopes.get(device as usize).map_or("global", String::as_str)),
            None => {
                let first = self.scopes.iter().position(|scope| scope == "global").unwrap_or(0);
                (i64::try_from(first).unwrap_or(0), "global")
            }
        }
    }
}
