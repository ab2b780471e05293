//! Names of virtual devices in types: `llvm:0:global` consists of the target kind, the number within that kind, and
//! the memory scope.

use passhost_lang::ir::Attr;
use std::collections::HashMap;

/// The virtual devices of a module.
#[derive(Default)]
pub(crate) struct Devices {
    names: Vec<String>,
    /// Device numbers, by name with and without memory scope.
    by_name: HashMap<String, u32, foldhash::fast::RandomState>,
}

impl Devices {
    /// Returns the devices declared in the global infos of a module.
    pub(crate) fn of(infos: &[(String, Attr)]) -> Devices {
        match infos.iter().find(|(key, _)| key == "vdevice") {
            Some((_, Attr::List(items))) => Devices::listed(items),
            _ => Devices::default(),
        }
    }

    /// Returns the devices of a list of global infos.
    pub(crate) fn listed(items: &[Attr]) -> Devices {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut devices = Devices::default();
        let mut short = Vec::new();
        for (device, item) in items.iter().enumerate() {
            let (kind, scope) = kind_and_scope(item);
            let count = counts.entry(kind.clone()).or_insert(0);
            let name = format!("{kind}:{count}:{scope}");
            if !kind.is_empty() {
                short.push((format!("{kind}:{count}"), device as u32));
                devices.by_name.entry(name.clone()).or_insert(device as u32);
            }
            *count += 1;
            devices.names.push(name);
        }
        for (name, device) in short {
            devices.by_name.entry(name).or_insert(device);
        }
        devices
    }

    /// Returns the name of a device.
    pub(crate) fn name(&self, device: u32) -> Option<&str> {
        self.names.get(device as usize).map(String::as_str)
    }

    /// Returns all names, in the order of the devices.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the device named `name`. As in TVM, a missing number is 0, and a missing memory scope means that of
    /// the device.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let spelled_out = || {
            let mut parts = name.splitn(3, ':');
            let kind = parts.next()?;
            let number: usize = parts.next().map_or(Some(0), |number| number.trim().parse().ok())?;
            let scope = parts.next().map(|scope| format!(":{scope}")).unwrap_or_default();
            self.by_name.get(&format!("{kind}:{number}{scope}"))
        };
        self.by_name.get(name).or_else(spelled_out).copied()
    }
}

/// Returns the target kind and memory scope of a virtual device.
fn kind_and_scope(item: &Attr) -> (String, String) {
    let Attr::Object(_, args) = item else { return Default::default() };
    let text = |attr: Option<&Attr>, default: &str| match attr {
        Some(Attr::Str(text)) => text.clone(),
        _ => default.to_string(),
    };
    let kind = args.first().and_then(|(_, target)| kind_of(target));
    (text(kind, ""), text(args.get(2).map(|(_, value)| value), "global"))
}

/// Returns the kind of a target: a name, a dictionary, or either of them in `T.target(...)`.
fn kind_of(target: &Attr) -> Option<&Attr> {
    match target {
        Attr::Dict(entries) => entries.iter().find(|(key, _)| key == "kind").map(|(_, value)| value),
        Attr::Object(_, parts) => parts.first().and_then(|(_, content)| kind_of(content)),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each name was looked up in TVM 0.27, which ignores a mismatched memory scope.
    #[test]
    fn devices_are_found_as_in_tvm() {
        let device = |kind: &str, number: i64, scope: &str| {
            let text = |text: &str| Attr::Str(text.to_string());
            let args = vec![(None, text(kind)), (None, Attr::Int(number)), (None, text(scope))];
            Attr::Object("I.vdevice".to_string(), args.into())
        };
        let items = [device("llvm", 0, "global"), device("cuda", 0, "global"), device("cuda", 7, "shared")];
        let devices = Devices::listed(&items);
        for (name, found) in [
            ("cuda", Some(1)),
            ("cuda:0", Some(1)),
            ("cuda:1", Some(2)),
            ("cuda: 1", Some(2)),
            ("cuda:01", Some(2)),
            ("cuda:1:shared", Some(2)),
            ("cuda:1:global", None),
            ("cuda:2", None),
            ("cuda:7", None),
            ("cuda:", None),
            ("cuda:x", None),
            ("cuda:-1", None),
            ("llvm", Some(0)),
            ("rocm", None),
            ("", None),
        ] {
            assert_eq!(devices.find(name), found, "{name:?}");
        }
        assert_eq!(devices.name(2), Some("cuda:1:shared"));
    }
}
