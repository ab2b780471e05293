use plugin_api::abi::export::{encode, encoded_len};
use plugin_api::declare::declarations::PluginDecl;

const PLUGIN: PluginDecl = PluginDecl { name: "two words", ..PluginDecl::EMPTY };

static BLOCK: [u8; encoded_len(&PLUGIN)] = encode(&PLUGIN);

fn main() {
    println!("{}", BLOCK.len());
}
