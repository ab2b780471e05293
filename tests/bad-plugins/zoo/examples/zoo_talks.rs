//! Interferes when the library is opened, as `ZOO_TALK` specifies: `flood` fills standard error, `forge` forges the
//! answer of a process that opened it successfully, `child` leaves a process behind that keeps everything open. With
//! `print`, its pass writes to standard output.
#![allow(unsafe_code, reason = "a constructor is a function in a section")]

use plugin_api::prelude::*;
use std::io::Write;
use std::process::{Command, Stdio};

export_plugin! {
    /// Changes nothing.
    function pass "zoo.Talks" { opt_level: 0, run: talks }
}

fn talks(body: &Body, _: &Ctx) -> Result<Body, PassError> {
    if std::env::var("ZOO_TALK").is_ok_and(|what| what == "print") {
        let _ = writeln!(std::io::stdout(), "said to standard output");
        if let Ok(mut file) = std::fs::OpenOptions::new().write(true).open("/dev/stdout") {
            let _ = writeln!(file, "said to the device");
        }
    }
    Ok(body.clone())
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static CONSTRUCTOR: extern "C" fn() = construct;

const ANSWER: &[u8] = b"{\"opened\": true, \"number\": \"00000000000000000000000000000000\"}\n";

extern "C" fn construct() {
    match std::env::var("ZOO_TALK").as_deref() {
        Ok("flood") => {
            let line = [b"all is well\n".as_slice(); 4096].concat();
            while std::io::stderr().write_all(&line).is_ok() {}
        }
        Ok("crash") => std::process::abort(),
        Ok("loop") => loop {
            std::thread::sleep(std::time::Duration::from_millis(10));
        },
        Ok("forge") => {
            let _ = std::io::stdout().write_all(ANSWER);
            std::process::exit(0);
        }
        Ok("forge everywhere") => {
            for descriptor in 0..100 {
                // SAFETY: it is irrelevant whether the descriptor is open and what it refers to; it is not closed.
                let file = unsafe { <std::fs::File as std::os::fd::FromRawFd>::from_raw_fd(descriptor) };
                let _ = std::mem::ManuallyDrop::new(file).write_all(ANSWER);
            }
            std::process::exit(0);
        }
        Ok("child") => {
            let mut child = Command::new("sleep");
            let _ = child.arg("30").stdin(Stdio::null()).spawn();
        }
        _ => {}
    }
}
