use plugin_api::decl::{PluginDecl, encode, encoded_len};

const PLUGIN: PluginDecl = PluginDecl { name: "two words", ..PluginDecl::EMPTY };

static BLOCK: [u8; encoded_len(&PLUGIN)] = encode(&PLUGIN);

fn main() {
    println!("{}", BLOCK.len());
}
