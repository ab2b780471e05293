//! A plugin under a host of an older API: what that host's table does not have, has nothing here.

use crate::ir::storage::module_handle::ModuleHdr;
use crate::services::{NO_SPAN, RawBytes, Services, SpanRecord, answer, wanted};
use std::mem::offset_of;

/// Where the functions of version 0.1 end.
const FIRST: usize = offset_of!(Services, span_wanted);

extern "C" fn span_not_wanted(_: *const SpanRecord) -> u32 {
    wanted::NO
}
extern "C" fn no_span(_: *const SpanRecord) -> u64 {
    NO_SPAN
}
extern "C" fn no_fields(_: u64, _: RawBytes) {}
extern "C" fn nothing(_: u64, _: u32, _: u64) -> u64 {
    NO_SPAN
}
extern "C" fn not_counted(_: u64, _: RawBytes, _: u64) {}
extern "C" fn not_shown(_: u64, _: *const ModuleHdr, _: RawBytes) -> u32 {
    answer::NONE
}

/// The host's table, or a copy that has everything that this version knows if the host's ends earlier; `None` if it
/// ends even before version 0.1 does.
///
/// # Safety
/// The table is null, or lives as long as the process and has as many bytes as it says.
pub(crate) unsafe fn complete(table: *const Services) -> Option<&'static Services> {
    if table.is_null() {
        return None;
    }
    // SAFETY: the size comes first. Beyond it nothing is read: the fields that are copied lie before `FIRST`.
    unsafe {
        let size = (&raw const (*table).size).read() as usize;
        if size >= size_of::<Services>() {
            return Some(&*table);
        }
        if size < FIRST {
            return None;
        }
        macro_rules! first {
            ($($field:ident),*) => {
                Services {
                    $($field: (&raw const (*table).$field).read(),)*
                    span_wanted: span_not_wanted,
                    span_new: no_span,
                    span_record: no_fields,
                    span: nothing,
                    statistic: not_counted,
                    show_module: not_shown,
                }
            };
        }
        Some(Box::leak(Box::new(first!(
            size,
            reserved,
            max_level,
            seal,
            module,
            module_with,
            tensor,
            infer,
            print,
            current,
            query,
            diagnose,
            log_enabled,
            log
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::host::table::SERVICES;

    #[test]
    fn an_older_host_has_everything_but_what_came_later() {
        let mut short = vec![0u64; FIRST / 8];
        // SAFETY: as many bytes of the host's table as the copy has.
        unsafe { std::ptr::from_ref(&SERVICES).cast::<u64>().copy_to(short.as_mut_ptr(), FIRST / 8) };
        let short = Box::leak(short.into_boxed_slice());
        let sized = |short: &mut [u64], size: usize| {
            short[0] = size as u64;
            // SAFETY: the size is at most that of the copy.
            unsafe { complete(short.as_ptr().cast()) }
        };
        let table = sized(short, FIRST).expect("what 0.1 has");
        assert!(std::ptr::fn_addr_eq(table.log, SERVICES.log) && std::ptr::fn_addr_eq(table.seal, SERVICES.seal));
        assert_eq!(((table.span_wanted)(std::ptr::null()), (table.span_new)(std::ptr::null())), (0, 0));
        (table.span_record)(1, RawBytes::of(b""));
        assert_eq!((table.span)(1, 1, 0), 0);
        (table.statistic)(1, RawBytes::of(b"n"), 1);
        assert_eq!((table.show_module)(1, std::ptr::null(), RawBytes::of(b"")), 1);
        assert!(sized(short, FIRST - 8).is_none());
        // SAFETY: null, and the host's own.
        let (none, own) = unsafe { (complete(std::ptr::null()), complete(&SERVICES)) };
        assert!(none.is_none() && own.is_some_and(|own| std::ptr::eq(own, &SERVICES)));
    }
}
