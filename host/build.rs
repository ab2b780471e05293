//! Passes the target triple to the host as `PASSHOST_TARGET`, because the lockfile has one hash per target.

fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".into());
    println!("cargo::rustc-env=PASSHOST_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
