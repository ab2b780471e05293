//! The virtual devices of a module and their memory scopes.

use plugin_api::prelude::*;

/// The memory scopes of the virtual devices of a module.
pub(crate) struct Devices {
    scopes: Vec<String>,
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
        Devices { scopes: devices.into_iter().flat_map(AttrView::items).map(scope).collect() }
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
