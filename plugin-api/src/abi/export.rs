//! Turns a library into a plugin: its metadata in a section of the file, and its entry.

use crate::abi::layout::fingerprint_of_plugin;
use crate::declare::declarations::{Built, PluginDecl, api_of, check, write_plugin};
use crate::metadata::wire::Writer;

impl Built {
    const fn here(plugin: &PluginDecl) -> Built {
        Built {
            api: api_of(plugin),
            fingerprint: fingerprint_of_plugin(plugin),
            target: env!("PASSHOST_TARGET"),
            rustc: env!("PASSHOST_RUSTC"),
        }
    }
}

/// Returns the number of bytes of the metadata block.
pub const fn encoded_len(plugin: &PluginDecl) -> usize {
    let mut w = Writer::<0>::new();
    write_plugin(&mut w, plugin, &Built::here(plugin));
    w.len()
}

/// Encodes the metadata block; `N` is [`encoded_len`].
pub const fn encode<const N: usize>(plugin: &PluginDecl) -> [u8; N] {
    check(plugin);
    let mut w = Writer::<N>::new();
    write_plugin(&mut w, plugin, &Built::here(plugin));
    w.finish()
}

/// Turns a library into a plugin with the name and version of its crate.
///
/// ```ignore
/// export_plugin! {
///     passes: [dce::DEAD_CODE_ELIMINATION, cse::ELIMINATE_COMMON_SUBEXPR],
///     operators: [conv::CONV2D],
/// }
/// ```
///
/// Each list can be omitted; `operators: &OPERATORS` takes a constant array. `config`, `properties`, `composites`,
/// `instruments`, `readers` and `writers` are also lists of declarations
/// ([`contributions`](crate::declare::contributions)). A plugin with a single pass can declare it in place, as in
/// [`declare_pass!`](crate::declare_pass), but without a constant:
///
/// ```ignore
/// export_plugin! {
///     /// Does nothing, politely.
///     function pass "acme.Nothing" { opt_level: 0, run: nothing }
/// }
/// ```
#[macro_export]
macro_rules! export_plugin {
    ($(#[doc = $doc:literal])* $granularity:ident pass $name:literal { $($facts:tt)* }) => {
        $crate::declare_pass! { $(#[doc = $doc])* $granularity pass __PASS = $name { $($facts)* } }
        $crate::__export! { @declare [[__PASS]] [] [] [] [] [] [] [] }
    };
    ($first:ident: $($rest:tt)*) => {
        $crate::__export! { @lists [] [] [] [] [] [] [] [] $first: $($rest)* }
    };
    ($($other:tt)*) => {
        compile_error!(
            "a plugin is exported with `export_plugin! { passes: [PASS], operators: [OP] }`, or with one pass in \
             place: `export_plugin! { module pass \"namespace.Name\" { opt_level: 0, run: a_function } }`"
        );
    };
}

/// Implementation of [`export_plugin!`]. `@lists` assigns the lists to slots: passes, operators, config, properties,
/// composites, instruments, readers, writers.
#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    (@lists [] $o:tt $c:tt $r:tt $s:tt $i:tt $d:tt $w:tt passes: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists [[$($list)*]] $o $c $r $s $i $d $w $($($rest)*)? }
    };
    (@lists $p:tt [] $c:tt $r:tt $s:tt $i:tt $d:tt $w:tt operators: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p [&[$($list)*]] $c $r $s $i $d $w $($($rest)*)? }
    };
    (@lists $p:tt [] $c:tt $r:tt $s:tt $i:tt $d:tt $w:tt operators: $list:expr $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p [$list] $c $r $s $i $d $w $($($rest)*)? }
    };
    (@lists $p:tt $o:tt [] $r:tt $s:tt $i:tt $d:tt $w:tt config: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p $o [[$($list)*]] $r $s $i $d $w $($($rest)*)? }
    };
    (@lists $p:tt $o:tt $c:tt [] $s:tt $i:tt $d:tt $w:tt properties: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p $o $c [[$($list)*]] $s $i $d $w $($($rest)*)? }
    };
    (@lists $p:tt $o:tt $c:tt $r:tt [] $i:tt $d:tt $w:tt composites: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p $o $c $r [[$($list)*]] $i $d $w $($($rest)*)? }
    };
    (@lists $p:tt $o:tt $c:tt $r:tt $s:tt [] $d:tt $w:tt instruments: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p $o $c $r $s [[$($list)*]] $d $w $($($rest)*)? }
    };
    (@lists $p:tt $o:tt $c:tt $r:tt $s:tt $i:tt [] $w:tt readers: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p $o $c $r $s $i [[$($list)*]] $w $($($rest)*)? }
    };
    (@lists $p:tt $o:tt $c:tt $r:tt $s:tt $i:tt $d:tt [] writers: [$($list:tt)*] $(, $($rest:tt)*)?) => {
        $crate::__export! { @lists $p $o $c $r $s $i $d [[$($list)*]] $($($rest)*)? }
    };
    (@lists $p:tt $o:tt $c:tt $r:tt $s:tt $i:tt $d:tt $w:tt) => { $crate::__export! { @declare $p $o $c $r $s $i $d $w } };
    (@lists $p:tt $o:tt $c:tt $r:tt $s:tt $i:tt $d:tt $w:tt $($other:tt)*) => {
        compile_error!(concat!(
            "found `", stringify!($($other)*), "` where a list of the plugin is expected: `passes`, `operators`, \
             `config`, `properties`, `composites`, `instruments`, `readers` and `writers`, each once, as `passes: [PASS]`"
        ));
    };
    (@list) => { &[] };
    (@list [$($item:path),* $(,)?]) => { &[$(&$item),*] };
    (@config) => { &[] };
    (@config [$($item:path),* $(,)?]) => { &[$(&$item.decl),*] };
    (@operators) => { &[] };
    (@operators $operators:expr) => { $operators };
    (@declare [$($passes:tt)?] [$($operators:expr)?] [$($config:tt)?] [$($properties:tt)?] [$($composites:tt)?]
        [$($instruments:tt)?] [$($readers:tt)?] [$($writers:tt)?]) => {
        #[doc(hidden)]
        pub const __PASSHOST_PLUGIN: $crate::declare::declarations::PluginDecl = $crate::declare::declarations::PluginDecl {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            passes: $crate::__export!(@list $($passes)?),
            operators: $crate::__export!(@operators $($operators)?),
            more: $crate::declare::contributions::Contributions {
                config: $crate::__export!(@config $($config)?),
                properties: $crate::__export!(@list $($properties)?),
                composites: $crate::__export!(@list $($composites)?),
                instruments: $crate::__export!(@list $($instruments)?),
                readers: $crate::__export!(@list $($readers)?),
                writers: $crate::__export!(@list $($writers)?),
            },
        };

        #[cfg(not(panic = "unwind"))]
        compile_error!(
            "a plugin must be built with panic = \"unwind\", since the boundary catches the panics of passes; remove \
             `panic = \"abort\"` from the profile in the workspace's Cargo.toml"
        );

        #[used]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".passhost"))]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__passhost"))]
        static __PASSHOST_METADATA: [u8; $crate::abi::export::encoded_len(&__PASSHOST_PLUGIN)] =
            $crate::abi::export::encode(&__PASSHOST_PLUGIN);

        static __PASSHOST_ENTRY: $crate::abi::entry::EntryOf1_1 =
            $crate::abi::entry::EntryOf1_1::new(&__PASSHOST_PLUGIN, &__PASSHOST_METADATA);

        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn passhost_plugin_entry_v1() -> *const $crate::abi::entry::Entry {
            __PASSHOST_ENTRY.table()
        }
    };
}
