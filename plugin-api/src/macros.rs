//! The macros that a plugin is written with.

/// Declares a pass: its facts, and the function that is its body.
///
/// ```
/// use plugin_api::prelude::*;
///
/// declare_pass! {
///     /// Gives functions back as they are.
///     pub function pass NOTHING = "acme.Nothing" {
///         opt_level: 0,
///         options: Options {
///             /// How often.
///             times: i64 = 1,
///         },
///         run: nothing,
///     }
/// }
///
/// fn nothing(function: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
///     assert_eq!(options.times, 1);
///     Ok(function.clone())
/// }
/// ```
///
/// Granularities: `module pass` (`fn(&Module, [&Options,] &Ctx) -> Result<Module, PassError>`), `function pass` and
/// `prim_func pass` (`fn(&Body, [&Options,] &Ctx) -> Result<Body, PassError>`), and `dataflow pass`
/// (`fn(&mut Edit, Value, [&Options,] &Ctx) -> Result<(), PassError>`, called for each dataflow block). Between
/// `opt_level` and `options` may stand, in this order: `required`, `requires`, `establishes`, `preserves`,
/// `invalidates`, each a list of strings.
#[macro_export]
macro_rules! declare_pass {
    (
        $(#[doc = $doc:literal])*
        $vis:vis $granularity:ident pass $NAME:ident = $name:literal {
            opt_level: $level:expr
            $(, required: [$($required:literal),* $(,)?])?
            $(, requires: [$($requires:literal),* $(,)?])?
            $(, establishes: [$($establishes:literal),* $(,)?])?
            $(, preserves: [$($preserves:literal),* $(,)?])?
            $(, invalidates: [$($invalidates:literal),* $(,)?])?
            , options: $Options:ident {
                $($(#[doc = $odoc:literal])* $option:ident: $ty:ty = $default:expr),* $(,)?
            },
            run: $run:path $(,)?
        }
    ) => {
        #[doc = concat!("Options of `", $name, "`.")]
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $Options {
            $($(#[doc = $odoc])* pub $option: $ty,)*
        }

        impl Default for $Options {
            fn default() -> Self {
                Self { $($option: $crate::options::IntoOption::<$ty>::into_option($default),)* }
            }
        }

        impl $Options {
            fn from_values(values: &[$crate::meta::OptionValue]) -> Self {
                let mut options = Self::default();
                let mut values = values.iter();
                $(
                    if let Some(value) = values.next().and_then(<$ty as $crate::options::OptionField>::from_value) {
                        options.$option = value;
                    }
                )*
                options
            }
        }

        $crate::__pass! {
            @decl [$vis $NAME $name $level]
            [$($doc)*]
            [$($($required)*)?] [$($($requires)*)?] [$($($establishes)*)?] [$($($preserves)*)?] [$($($invalidates)*)?]
            [$($crate::decl::OptionDecl {
                name: stringify!($option),
                ty: <$ty as $crate::options::OptionField>::TYPE,
                default: stringify!($default),
                doc: concat!($($odoc, "\n"),*),
            },)*]
            ($crate::__pass!(@run $granularity $run; $Options))
        }
    };
    (
        $(#[doc = $doc:literal])*
        $vis:vis $granularity:ident pass $NAME:ident = $name:literal {
            opt_level: $level:expr
            $(, required: [$($required:literal),* $(,)?])?
            $(, requires: [$($requires:literal),* $(,)?])?
            $(, establishes: [$($establishes:literal),* $(,)?])?
            $(, preserves: [$($preserves:literal),* $(,)?])?
            $(, invalidates: [$($invalidates:literal),* $(,)?])?
            , run: $run:path $(,)?
        }
    ) => {
        $crate::__pass! {
            @decl [$vis $NAME $name $level]
            [$($doc)*]
            [$($($required)*)?] [$($($requires)*)?] [$($($establishes)*)?] [$($($preserves)*)?] [$($($invalidates)*)?]
            []
            ($crate::__pass!(@run $granularity $run;))
        }
    };
}

/// Parts of [`declare_pass!`]; not for direct use.
#[doc(hidden)]
#[macro_export]
macro_rules! __pass {
    (@decl [$vis:vis $NAME:ident $name:literal $level:expr] [$($doc:literal)*]
        [$($required:literal)*] [$($requires:literal)*] [$($establishes:literal)*] [$($preserves:literal)*]
        [$($invalidates:literal)*] [$($option:expr,)*] ($run:expr)) => {
        $(#[doc = $doc])*
        $vis const $NAME: $crate::decl::PassDecl = $crate::decl::PassDecl {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            opt_level: $level,
            required: &[$($required),*],
            requires: &[$($requires),*],
            establishes: &[$($establishes),*],
            preserves: &[$($preserves),*],
            invalidates: &[$($invalidates),*],
            options: &[$($option),*],
            run: $run,
        };
    };
    (@run module $run:path; $Options:ident) => {
        $crate::decl::RunFn::Module(|module, values, ctx| $run(module, &$Options::from_values(values), ctx))
    };
    (@run module $run:path;) => {
        $crate::decl::RunFn::Module(|module, _, ctx| $run(module, ctx))
    };
    (@run function $run:path; $Options:ident) => {
        $crate::decl::RunFn::Function(|values, batch| {
            let options = $Options::from_values(values);
            batch.each(|body, ctx| $run(body, &options, ctx))
        })
    };
    (@run function $run:path;) => {
        $crate::decl::RunFn::Function(|_, batch| batch.each(|body, ctx| $run(body, ctx)))
    };
    (@run prim_func $run:path; $Options:ident) => {
        $crate::decl::RunFn::PrimFunc(|values, batch| {
            let options = $Options::from_values(values);
            batch.each(|body, ctx| $run(body, &options, ctx))
        })
    };
    (@run prim_func $run:path;) => {
        $crate::decl::RunFn::PrimFunc(|_, batch| batch.each(|body, ctx| $run(body, ctx)))
    };
    (@run dataflow $run:path; $Options:ident) => {
        $crate::decl::RunFn::DataflowBlock(|values, batch| {
            let options = $Options::from_values(values);
            batch.each(|body, ctx| {
                $crate::decl::each_dataflow_block(body, |edit, block| $run(edit, block, &options, ctx))
            })
        })
    };
    (@run dataflow $run:path;) => {
        $crate::decl::RunFn::DataflowBlock(|_, batch| {
            batch.each(|body, ctx| $crate::decl::each_dataflow_block(body, |edit, block| $run(edit, block, ctx)))
        })
    };
}

/// Makes a library a plugin: `export_plugin! { passes: [dce::DEAD_CODE_ELIMINATION], operators: OPERATORS }`, or with
/// one pass declared in place. Either list may be left out. Name and version of the plugin are those of its crate.
#[macro_export]
macro_rules! export_plugin {
    (
        $(passes: [$($pass:path),* $(,)?])? $(,)?
        $(operators: $operators:expr)? $(,)?
    ) => {
        #[doc(hidden)]
        pub const __PASSHOST_PLUGIN: $crate::decl::PluginDecl = $crate::decl::PluginDecl {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            passes: &[$($(&$pass),*)?],
            operators: $crate::__operators!($($operators)?),
        };

        #[cfg(not(panic = "unwind"))]
        compile_error!("a plugin must be built with panic = \"unwind\": the boundary catches panics of passes");

        #[used]
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".passhost"))]
        #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__passhost"))]
        static __PASSHOST_METADATA: [u8; $crate::decl::encoded_len(&__PASSHOST_PLUGIN)] =
            $crate::decl::encode(&__PASSHOST_PLUGIN);

        static __PASSHOST_ENTRY: $crate::abi::entry::Entry = $crate::abi::entry::Entry::new(&__PASSHOST_PLUGIN);

        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn passhost_plugin_entry_v0() -> *const $crate::abi::entry::Entry {
            &__PASSHOST_ENTRY
        }
    };
    (
        $(#[doc = $doc:literal])*
        $granularity:ident pass $name:literal { $($body:tt)* }
    ) => {
        $crate::declare_pass! {
            $(#[doc = $doc])*
            $granularity pass __PASS = $name { $($body)* }
        }
        $crate::export_plugin! { passes: [__PASS] }
    };
}

/// Part of [`export_plugin!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __operators {
    () => {
        &[]
    };
    ($operators:expr) => {
        $operators
    };
}
