//! Macros for contributions other than passes and operators.

/// Declares a config option: a value that users set for a run, and passes read.
///
/// ```
/// use plugin_api::prelude::*;
///
/// declare_config! {
///     /// How many groups there may be.
///     pub LIMIT: i64 = "acme.limit" { default: 16, range: 0..=1024 }
/// }
/// declare_config! {
///     /// Functions that are left alone.
///     pub LEFT_ALONE: Vec<String> = "acme.group.left_alone" {}
/// }
///
/// fn is_left_alone(name: &str, ctx: &Ctx) -> bool {
///     let names: Option<Vec<String>> = LEFT_ALONE.get(ctx);
///     names.is_some_and(|names| names.iter().any(|other| other == name))
/// }
/// // Without a host, no option is set.
/// let limit: i64 = LIMIT.get(&Ctx::detached());
/// assert_eq!(limit, 16);
/// assert!(!is_left_alone("main", &Ctx::detached()));
/// ```
///
/// The key is `namespace.key`; further dots address fields of a record. The type is a `bool`, `i64`, `f64` or
/// `String`, or a `Vec` of one of these. With a `default`, `get` returns a value of this type; otherwise, it
/// returns an `Option`, which is `None` unless the user sets the option. A number may have an inclusive `range`:
/// `0..=1024`, `0..` or `..=1024`. The host rejects other keys, types and values before the run starts. The
/// option must have documentation.
#[macro_export]
macro_rules! declare_config {
    (
        $(#[doc = $doc:literal])*
        $vis:vis $NAME:ident: $ty:ident $(<$item:ident>)? = $key:literal { $($facts:tt)* }
    ) => {
        $crate::__config! { @facts { [$($doc)*] [$vis] $NAME [$ty $($item)?] $key } { [] [] } $($facts)* , }
    };
    ($($other:tt)*) => {
        compile_error!(
            "a config option is declared like `pub NAME: i64 = \"namespace.key\" { default: 16, range: 0..=1024 }`"
        );
    };
}

/// Implementation of [`declare_config!`]; not for direct use. The slots are default and range.
#[doc(hidden)]
#[macro_export]
macro_rules! __config {
    (@facts $h:tt { [] $r:tt } default: $v:expr, $($rest:tt)*) => {
        $crate::__config! { @facts $h { [$v] $r } $($rest)* }
    };
    (@facts $h:tt { $d:tt [] } range: $from:literal ..= $to:literal, $($rest:tt)*) => {
        $crate::__config! { @facts $h { $d [[$from] [$to]] } $($rest)* }
    };
    (@facts $h:tt { $d:tt [] } range: $from:literal .., $($rest:tt)*) => {
        $crate::__config! { @facts $h { $d [[$from] []] } $($rest)* }
    };
    (@facts $h:tt { $d:tt [] } range: ..= $to:literal, $($rest:tt)*) => {
        $crate::__config! { @facts $h { $d [[] [$to]] } $($rest)* }
    };
    (@facts $h:tt $slots:tt $(,)?) => { $crate::__config! { @declare $h $slots } };
    (@facts $h:tt $slots:tt default $($rest:tt)*) => {
        compile_error!("`default` may appear once in a config option, as `default: 16`");
    };
    (@facts $h:tt $slots:tt range $($rest:tt)*) => {
        compile_error!(
            "`range` may appear once in a config option and is of numbers, as `range: 0..=1024`, `range: 0..` or \
             `range: ..=1024`"
        );
    };
    (@facts $h:tt $slots:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "found `", stringify!($($rest)*), "` in a config option; it has `default` and `range`"
        ));
    };

    (@declare { [$($doc:literal)*] [$vis:vis] $NAME:ident $ty:tt $key:literal } { [$($default:expr)?] $range:tt }) => {
        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::contributions::Config<$crate::__config!(@value $ty $($default)?)> =
            $crate::declare::contributions::Config::new($crate::declare::contributions::ConfigDecl {
                name: $key,
                doc: concat!($($doc, "\n"),*),
                ty: $crate::__config!(@type $ty),
                default: $crate::__config!(@default $ty $($default)?),
                range: $crate::__config!(@range $ty $range),
            }
            .checked());
    };

    (@value [$ty:ident $($item:ident)?]) => { Option<$ty $(<$item>)?> };
    (@value [$ty:ident $($item:ident)?] $default:expr) => { $ty $(<$item>)? };

    (@type [bool]) => { $crate::metadata::OptionType::Bool };
    (@type [i64]) => { $crate::metadata::OptionType::Int };
    (@type [f64]) => { $crate::metadata::OptionType::Float };
    (@type [String]) => { $crate::metadata::OptionType::Str };
    (@type [Vec bool]) => { $crate::metadata::OptionType::BoolList };
    (@type [Vec i64]) => { $crate::metadata::OptionType::IntList };
    (@type [Vec f64]) => { $crate::metadata::OptionType::FloatList };
    (@type [Vec String]) => { $crate::metadata::OptionType::StrList };
    (@type $other:tt) => {
        compile_error!("a config option is a bool, i64, f64 or String, or a Vec of one of these")
    };

    (@default $ty:tt) => { $crate::typing::operators::DefaultDecl::Required };
    (@default [$($ty:ident)+] $default:expr) => { $crate::__options!(@default $($ty)+, $default) };

    (@range $ty:tt []) => { $crate::declare::range::RangeDecl::Any };
    (@range [i64] [[$($from:literal)?] [$($to:literal)?]]) => {
        $crate::declare::range::RangeDecl::Int($crate::__config!(@end $($from)?), $crate::__config!(@end $($to)?))
    };
    (@range [f64] [[$($from:literal)?] [$($to:literal)?]]) => {
        $crate::declare::range::RangeDecl::Float($crate::__config!(@end $($from)?), $crate::__config!(@end $($to)?))
    };
    (@range $ty:tt $range:tt) => { compile_error!("only an i64 or f64 has a `range`") };
    (@end) => { None };
    (@end $end:literal) => { Some($end) };
}

/// Declares a property of Relax functions, which passes can require, establish and preserve.
///
/// ```
/// use plugin_api::prelude::*;
///
/// declare_property! {
///     /// The module contains no dataflow block.
///     pub NO_DATAFLOW = "acme.no_dataflow" { check: no_dataflow }
/// }
///
/// fn no_dataflow(function: &Body, _: &Ctx) -> Result<(), PassError> {
///     match function.dataflow_blocks().next() {
///         Some(block) => bail!(at block.header(), "there is a dataflow block"),
///         None => Ok(()),
///     }
/// }
/// ```
///
/// The checker is a `fn(&Body, &Ctx) -> Result<(), PassError>`. It runs on single functions: before a pass that
/// requires the property, unless an earlier step established it; and after passes that claim to establish or
/// preserve it. Without `check`, the property cannot be checked, so claims are trusted. The property must have
/// documentation.
#[macro_export]
macro_rules! declare_property {
    ($(#[doc = $doc:literal])* $vis:vis $NAME:ident = $name:literal { $(check: $check:expr $(,)?)? }) => {
        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::contributions::PropertyDecl = $crate::declare::contributions::PropertyDecl {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            check: $crate::declare_property!(@check $($check)?),
        }
        .checked();
    };
    (@check) => { None };
    (@check $check:expr) => {{
        let check: $crate::declare::contributions::CheckFn = $check;
        Some(check)
    }};
    ($($other:tt)*) => {
        compile_error!("a property is declared like `pub NAME = \"namespace.name\" { check: a_function }`");
    };
}

/// Declares a composite pass: several passes that run in sequence under one name.
///
/// ```
/// use plugin_api::prelude::*;
///
/// declare_composite! {
///     /// Tidies up after other passes.
///     pub CLEANUP = "acme.Cleanup" {
///         opt_level: 1,
///         required: ["relax.Normalize (>= 0.1)"],
///         passes: ["relax.CanonicalizeBindings", "acme.Fold{times=2}"],
///     }
/// }
/// ```
///
/// `opt_level` and `passes` are mandatory, `required` is optional. Members are passes of any plugin, including
/// composite passes, given by full name, with options as in a pipeline. `--disable acme.Cleanup` skips the whole
/// composite pass; `--disable relax.CanonicalizeBindings` skips this member and any other step that runs the same
/// pass. The composite pass must have documentation.
#[macro_export]
macro_rules! declare_composite {
    ($(#[doc = $doc:literal])* $vis:vis $NAME:ident = $name:literal { $($facts:tt)* }) => {
        $crate::__composite! { @facts { [$($doc)*] [$vis] $NAME $name } { [] [] [] } $($facts)* , }
    };
    ($($other:tt)*) => {
        compile_error!(
            "a composite pass is declared like `pub NAME = \"namespace.Name\" { opt_level: 1, passes: \
             [\"relax.Normalize\", \"acme.Fold{times=2}\"] }`"
        );
    };
}

/// Implementation of [`declare_composite!`]; not for direct use. The slots are level, required and passes.
#[doc(hidden)]
#[macro_export]
macro_rules! __composite {
    (@facts $h:tt { [] $r:tt $p:tt } opt_level: $v:expr, $($rest:tt)*) => {
        $crate::__composite! { @facts $h { [$v] $r $p } $($rest)* }
    };
    (@facts $h:tt { $l:tt [] $p:tt } required: [$($item:literal),* $(,)?], $($rest:tt)*) => {
        $crate::__composite! { @facts $h { $l [[$($item),*]] $p } $($rest)* }
    };
    (@facts $h:tt { $l:tt $r:tt [] } passes: [$($item:literal),* $(,)?], $($rest:tt)*) => {
        $crate::__composite! { @facts $h { $l $r [[$($item),*]] } $($rest)* }
    };
    (@facts $h:tt $slots:tt $(,)?) => { $crate::__composite! { @declare $h $slots } };
    (@facts $h:tt $slots:tt opt_level $($rest:tt)*) => {
        compile_error!("`opt_level` may appear once in a composite pass, as `opt_level: 1`");
    };
    (@facts $h:tt $slots:tt required $($rest:tt)*) => {
        compile_error!("`required` may appear once in a composite pass and is a list of strings, as `required: [\"relax.Normalize\"]`");
    };
    (@facts $h:tt $slots:tt passes $($rest:tt)*) => {
        compile_error!(
            "`passes` may appear once in a composite pass and is a list of strings, as `passes: [\"relax.Normalize\", \
             \"acme.Fold{times=2}\"]`"
        );
    };
    (@facts $h:tt $slots:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "found `", stringify!($($rest)*), "` in a composite pass; it has `opt_level`, `required` and `passes`"
        ));
    };

    (@declare { $doc:tt $vis:tt $NAME:ident $name:literal } { [] $($slots:tt)* }) => {
        compile_error!(concat!("`opt_level` of composite pass `", $name, "` is missing; write, for example, `opt_level: 1,`"));
    };
    (@declare { $doc:tt $vis:tt $NAME:ident $name:literal } { $l:tt $r:tt [] }) => {
        compile_error!(concat!("`passes` of composite pass `", $name, "` is missing; it is the list of its members"));
    };
    (@declare { [$($doc:literal)*] [$vis:vis] $NAME:ident $name:literal } { [$level:expr] [$($required:expr)?] [$passes:expr] }) => {
        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::contributions::CompositeDecl = $crate::declare::contributions::CompositeDecl {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            opt_level: $level,
            required: $crate::__composite!(@list $($required)?),
            passes: &$passes,
        }
        .checked();
    };
    (@list) => { &[] };
    (@list $list:expr) => { &$list };
}
