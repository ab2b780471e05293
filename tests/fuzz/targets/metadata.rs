#![no_main]

use libfuzzer_sys::fuzz_target;
use plugin_api::meta::PluginMeta;

fuzz_target!(|section: &[u8]| {
    if let Err(error) = PluginMeta::decode(section) {
        assert!(!error.to_string().is_empty());
    }
});
