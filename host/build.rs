//! Tells the host its own target triple: the lockfile has one hash for each.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".into());
    println!("cargo::rustc-env=PASSHOST_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
