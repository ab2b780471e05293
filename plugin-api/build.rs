//! Passes the target and the compiler version to the crate; both are part of the plugin metadata.
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".into());
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string()).unwrap_or_default();
    println!("cargo::rustc-env=PASSHOST_TARGET={target}");
    println!("cargo::rustc-env=PASSHOST_RUSTC={version}");
}
