//! Links the extension module on macOS, where the interpreter that loads it provides Python's functions.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "macos") {
        println!("cargo::rustc-cdylib-link-arg=-undefined");
        println!("cargo::rustc-cdylib-link-arg=dynamic_lookup");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
