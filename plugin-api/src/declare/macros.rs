//! Macros for writing plugins.

/// Declares a pass: its facts, and the function that implements it.
///
/// ```
/// use plugin_api::prelude::*;
///
/// declare_pass! {
///     /// Gives functions back as they are.
///     ///
///     /// More about it.
///     pub function pass NOTHING = "acme.Nothing" {
///         opt_level: 0,
///         required: ["relax.Normalize (>= 0.1)"],
///         preserves: [keeps_form, "acme.sorted"],
///         options: Options {
///             /// How often.
///             times: i64 in (0..) = 1,
///             /// Where it begins.
///             direction: String in ["from-inputs", "from-outputs"] = "from-inputs",
///             /// Functions that are looked at.
///             entry_functions: Vec<String> = ["main"],
///         },
///         run: nothing,
///     }
/// }
///
/// fn nothing(function: &Body, options: &Options, _: &Ctx) -> Result<Body, PassError> {
///     if options.entry_functions.is_empty() {
///         bail!("`entry_functions` is empty; name a function");
///     }
///     Ok(function.clone())
/// }
/// # assert_eq!(Options::default().entry_functions, ["main"]);
/// # assert_eq!(NOTHING.preserves, ["relax.Normalize", "relax.anf", "relax.no_dataflow", "acme.sorted"]);
/// ```
///
/// | granularity | body |
/// |---|---|
/// | `module pass` | `fn(&Module, &Options, &Ctx) -> Result<Module, PassError>` |
/// | `function pass`, `prim_func pass` | `fn(&Body, &Options, &Ctx) -> Result<Body, PassError>` |
/// | `dataflow pass` | `fn(&mut Edit<'_>, Value<'_>, &Options, &Ctx) -> Result<(), PassError>`, once per block |
///
/// Without `options`, that argument is omitted. The facts `opt_level` and `run` are mandatory. The others are optional:
/// `required`, `requires`, `establishes`, `preserves`, `invalidates` (lists of strings), `traceable`, `sequential` (the
/// host never runs it on two functions at a time), `tolerance` (the permitted change of computed values, a
/// [`Tolerance`](crate::metadata::Tolerance)) and `options`. The order of facts is free. An option is a `bool`, `i64`,
/// `f64` or `String`, or a `Vec` of one of these. A number may have an inclusive range: `in (0..)` or `in (0..=9)`; an
/// `i64` or `String` may be restricted to a list: `in [8, 16]`. The host rejects other types and values before the run
/// starts.
///
/// A pass whose result has the same form as its input, as most do, declares `preserves: [keeps_form]`, which is short
/// for `relax.Normalize`, `relax.anf` and `relax.no_dataflow`: normalized functions stay normalized, and the pass does
/// not create dataflow blocks. `keeps_form` comes first; names of passes and properties may follow: `[keeps_form,
/// "acme.sorted"]`.
///
/// The name of an option consists of letters, digits and `_`, and must be unique. The pass and each option must
/// have documentation. A pair of blocks in the documentation of the pass, ````
/// ```relax before ```` and ```` ```relax after ````, is an example: the crate `plugin-test` runs it, and
/// `passhost explain` shows it. If the first line of the first block is `# options: {times=2}`, the pass runs with these options.
#[macro_export]
macro_rules! declare_pass {
    (
        $(#[doc = $doc:literal])*
        $vis:vis $granularity:ident pass $NAME:ident = $name:literal { $($facts:tt)* }
    ) => {
        $crate::__pass! {
            @facts { [$($doc)*] [$vis] $granularity $NAME $name } { [] [] [] [] [] [] [] [] [] [] [] } $($facts)* ,
        }
    };
    ($($other:tt)*) => {
        compile_error!(
            "a pass is declared like `pub module pass NAME = \"namespace.Name\" { opt_level: 0, run: a_function }`"
        );
    };
}

/// Implementation of [`declare_pass!`]; not for direct use. `@facts` assigns the facts to slots: level, traceable,
/// required, requires, establishes, preserves, invalidates, options, run, sequential, tolerance.
#[doc(hidden)]
#[macro_export]
macro_rules! __pass {
    (@facts $h:tt { [] $t:tt $q:tt $r:tt $e:tt $p:tt $i:tt $o:tt $f:tt $s:tt $n:tt } opt_level: $v:expr, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { [$v] $t $q $r $e $p $i $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt [] $q:tt $r:tt $e:tt $p:tt $i:tt $o:tt $f:tt $s:tt $n:tt } traceable: $v:literal, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l [$v] $q $r $e $p $i $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt [] $r:tt $e:tt $p:tt $i:tt $o:tt $f:tt $s:tt $n:tt } required: $v:tt, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t [$v] $r $e $p $i $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt [] $e:tt $p:tt $i:tt $o:tt $f:tt $s:tt $n:tt } requires: $v:tt, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q [$v] $e $p $i $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt [] $p:tt $i:tt $o:tt $f:tt $s:tt $n:tt } establishes: $v:tt, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r [$v] $p $i $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt $e:tt [] $i:tt $o:tt $f:tt $s:tt $n:tt } preserves: $v:tt, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r $e [$v] $i $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt $e:tt $p:tt [] $o:tt $f:tt $s:tt $n:tt } invalidates: $v:tt, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r $e $p [$v] $o $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt $e:tt $p:tt $i:tt [] $f:tt $s:tt $n:tt } options: $v:ident $w:tt, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r $e $p $i [$v $w] $f $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt $e:tt $p:tt $i:tt $o:tt [] $s:tt $n:tt } run: $v:expr, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r $e $p $i $o [$v] $s $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt $e:tt $p:tt $i:tt $o:tt $f:tt [] $n:tt } sequential: $v:literal, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r $e $p $i $o $f [$v] $n } $($rest)* }
    };
    (@facts $h:tt { $l:tt $t:tt $q:tt $r:tt $e:tt $p:tt $i:tt $o:tt $f:tt $s:tt [] } tolerance: $v:expr, $($rest:tt)*) => {
        $crate::__pass! { @facts $h { $l $t $q $r $e $p $i $o $f $s [$v] } $($rest)* }
    };
    (@facts $h:tt $slots:tt $(,)?) => { $crate::__pass! { @declare $h $slots } };
    (@facts $h:tt $slots:tt $key:ident $($rest:tt)*) => { $crate::__pass! { @wrong $key $($rest)* } };
    (@facts $h:tt $slots:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "found `", stringify!($($rest)*), "` where a field of a pass is expected, as `opt_level: 0`"
        ));
    };

    // A key that did not match any arm above: it is unknown or repeated, or its value has the wrong kind.
    (@wrong opt_level $($rest:tt)*) => { $crate::__pass! { @once opt_level "opt_level: 0" } };
    (@wrong traceable $($rest:tt)*) => { $crate::__pass! { @once traceable "traceable: true" } };
    (@wrong required $($rest:tt)*) => { $crate::__pass! { @once required "required: [\"relax.Normalize\"]" } };
    (@wrong requires $($rest:tt)*) => { $crate::__pass! { @once requires "requires: [\"relax.anf\"]" } };
    (@wrong establishes $($rest:tt)*) => { $crate::__pass! { @once establishes "establishes: [\"relax.anf\"]" } };
    (@wrong preserves $($rest:tt)*) => { $crate::__pass! { @once preserves "preserves: [\"all\"]" } };
    (@wrong invalidates $($rest:tt)*) => { $crate::__pass! { @once invalidates "invalidates: [\"relax.anf\"]" } };
    (@wrong options $($rest:tt)*) => {
        $crate::__pass! { @once options "options: Options { /// How often.\n times: i64 = 1 }" }
    };
    (@wrong sequential $($rest:tt)*) => { $crate::__pass! { @once sequential "sequential: true" } };
    (@wrong tolerance $($rest:tt)*) => { $crate::__pass! { @once tolerance "tolerance: Tolerance::Exact" } };
    (@wrong run $($rest:tt)*) => { $crate::__pass! { @once run "run: a_function" } };
    (@wrong $key:ident $($rest:tt)*) => {
        compile_error!(concat!(
            "a pass has no field `", stringify!($key), "`; it has `opt_level`, `run`, `options`, `traceable`, \
             `sequential`, `tolerance`, and the lists of strings `required`, `requires`, `establishes`, `preserves`, `invalidates`"
        ));
    };
    (@once $key:ident $example:literal) => {
        compile_error!(concat!("`", stringify!($key), "` may appear once in a pass, as `", $example, "`"));
    };

    (@declare { $doc:tt $vis:tt $g:ident $NAME:ident $name:literal } { [] $($slots:tt)* }) => {
        compile_error!(concat!("`opt_level` of pass `", $name, "` is missing; write, for example, `opt_level: 1,`"));
    };
    (@declare { $doc:tt $vis:tt $g:ident $NAME:ident $name:literal }
        { $l:tt $t:tt $q:tt $r:tt $e:tt $p:tt $i:tt $o:tt [] $s:tt $n:tt }) => {
        compile_error!(concat!("`run` of pass `", $name, "` is missing; it names the function that is its body"));
    };
    (@declare { [$($doc:literal)*] [$vis:vis] $granularity:ident $NAME:ident $name:literal } {
        [$level:expr] [$($traceable:literal)?]
        [$($required:tt)?] [$($requires:tt)?] [$($establishes:tt)?] [$($preserves:tt)?] [$($invalidates:tt)?]
        [$($Options:ident $fields:tt)?] [$run:expr] [$($sequential:literal)?] [$($tolerance:expr)?]
    }) => {
        $($crate::__options! { [$vis] $Options $name $fields })?

        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::declarations::PassDecl = $crate::declare::declarations::PassDecl {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            opt_level: $level,
            traceable: false $(|| $traceable)?,
            sequential: false $(|| $sequential)?,
            required: $crate::__pass!(@list required $($required)?),
            requires: $crate::__pass!(@list requires $($requires)?),
            establishes: $crate::__pass!(@list establishes $($establishes)?),
            preserves: $crate::__pass!(@list preserves $($preserves)?),
            invalidates: $crate::__pass!(@list invalidates $($invalidates)?),
            tolerance: $crate::__pass!(@tolerance $($tolerance)?),
            options: $crate::__pass!(@decls $($Options)?),
            run: $crate::__pass!(@run $granularity $run $(, $Options)?),
        }
        .checked();
    };

    (@list $key:ident) => { &[] };
    (@list $key:ident [$($item:literal),* $(,)?]) => { &[$($item),*] };
    (@list preserves [keeps_form $(, $item:literal)* $(,)?]) => {
        &["relax.Normalize", "relax.anf", "relax.no_dataflow" $(, $item)*]
    };
    (@list preserves $($other:tt)*) => {
        compile_error!(
            "`preserves` is a list of strings, optionally preceded by `keeps_form`, as `preserves: [keeps_form, \"acme.sorted\"]`"
        )
    };
    (@list $key:ident $($other:tt)*) => {
        compile_error!(concat!(
            "`", stringify!($key), "` is a list of strings, as `", stringify!($key), ": [\"relax.Normalize\"]`"
        ))
    };

    (@tolerance) => { $crate::metadata::Tolerance::Exact };
    (@tolerance $tolerance:expr) => { $tolerance };

    (@decls) => { &[] };
    (@decls $Options:ident) => { $Options::DECLS };

    (@run module $run:expr) => {
        $crate::declare::declarations::RunFn::Module(|module, _, ctx| {
            let run: fn(&$crate::ir::Module, &$crate::declare::pass::Ctx)
                -> Result<$crate::ir::Module, $crate::PassError> = $run;
            run(module, ctx)
        })
    };
    (@run module $run:expr, $Options:ident) => {
        $crate::declare::declarations::RunFn::Module(|module, values, ctx| {
            let run: fn(&$crate::ir::Module, &$Options, &$crate::declare::pass::Ctx)
                -> Result<$crate::ir::Module, $crate::PassError> = $run;
            run(module, &$Options::from_values(values)?, ctx)
        })
    };
    (@run function $($run:tt)*) => { $crate::declare::declarations::RunFn::Function($crate::__pass!(@each $($run)*)) };
    (@run prim_func $($run:tt)*) => { $crate::declare::declarations::RunFn::PrimFunc($crate::__pass!(@each $($run)*)) };
    (@run dataflow $($run:tt)*) => { $crate::declare::declarations::RunFn::DataflowBlock($crate::__pass!(@blocks $($run)*)) };
    (@run $other:ident $($run:tt)*) => {
        compile_error!(concat!(
            "`", stringify!($other), " pass` is not a kind of pass; expected `module pass`, `function pass`, `dataflow pass` or \
             `prim_func pass`"
        ))
    };

    (@each $run:expr) => {
        |_, batch| {
            let run: fn(&$crate::ir::Body, &$crate::declare::pass::Ctx)
                -> Result<$crate::ir::Body, $crate::PassError> = $run;
            batch.each(run);
        }
    };
    (@each $run:expr, $Options:ident) => {
        |values, batch| {
            let run: fn(&$crate::ir::Body, &$Options, &$crate::declare::pass::Ctx)
                -> Result<$crate::ir::Body, $crate::PassError> = $run;
            let options = $Options::from_values(values);
            batch.each(|body, ctx| run(body, options.as_ref().map_err(Clone::clone)?, ctx));
        }
    };
    (@blocks $run:expr) => {
        |_, batch| {
            let run: fn(&mut $crate::rewrite::Edit<'_>, $crate::ir::Value<'_>, &$crate::declare::pass::Ctx)
                -> Result<(), $crate::PassError> = $run;
            batch.each(|body, ctx| $crate::declare::declarations::each_dataflow_block(body, |edit, block| run(edit, block, ctx)));
        }
    };
    (@blocks $run:expr, $Options:ident) => {
        |values, batch| {
            let run: fn(&mut $crate::rewrite::Edit<'_>, $crate::ir::Value<'_>, &$Options, &$crate::declare::pass::Ctx)
                -> Result<(), $crate::PassError> = $run;
            let options = $Options::from_values(values);
            batch.each(|body, ctx| {
                let options = options.as_ref().map_err(Clone::clone)?;
                $crate::declare::declarations::each_dataflow_block(body, |edit, block| run(edit, block, options, ctx))
            });
        }
    };
}

/// Defines the options of a pass or an instrument as a struct; part of [`declare_pass!`] and
/// [`declare_instrument!`](crate::declare_instrument).
#[doc(hidden)]
#[macro_export]
macro_rules! __options {
    ([$vis:vis] $Options:ident $name:literal {
        $($(#[doc = $doc:literal])* $option:ident: $ty:ident $(<$item:ident>)? $(in $range:tt)? = $default:expr),* $(,)?
    }) => {
        #[doc = concat!("Options of `", $name, "`.")]
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $Options {
            $($(#[doc = $doc])* pub $option: $ty $(<$item>)?,)*
        }

        impl Default for $Options {
            fn default() -> Self {
                Self { $($option: $crate::__options!(@value $ty $($item)?, $default),)* }
            }
        }

        impl $Options {
            #[doc(hidden)]
            pub const DECLS: &'static [$crate::declare::declarations::OptionDecl] = &[$($crate::declare::declarations::OptionDecl {
                name: stringify!($option),
                ty: <$ty $(<$item>)? as $crate::declare::options::OptionField>::TYPE,
                default: $crate::__options!(@default $ty $($item)?, $default),
                range: $crate::__options!(@range [$ty $($item)?] $($range)?),
                doc: concat!($($doc, "\n"),*),
            },)*];

            #[doc(hidden)]
            pub fn from_values(values: &[$crate::metadata::OptionValue]) -> Result<Self, $crate::PassError> {
                let mut values = $crate::declare::options::Values::new(Self::DECLS, values);
                let options = Self { $($option: values.next()?,)* };
                values.end()?;
                Ok(options)
            }
        }
    };
    ([$vis:vis] $Options:ident $name:literal { $($other:tt)* }) => {
        compile_error!(concat!(
            "options of `", $name, "`: each is `name: type = default,` where the type is bool, i64, f64, String, \
             or a Vec of one of these"
        ));
    };

    (@default bool, $default:expr) => { $crate::typing::operators::DefaultDecl::Bool($default) };
    (@default i64, $default:expr) => { $crate::typing::operators::DefaultDecl::Int($default) };
    (@default f64, $default:expr) => { $crate::typing::operators::DefaultDecl::Float($default) };
    (@default String, $default:expr) => { $crate::typing::operators::DefaultDecl::Str($default) };
    (@default Vec bool, $default:expr) => { $crate::typing::operators::DefaultDecl::Bools(&$default) };
    (@default Vec i64, $default:expr) => { $crate::typing::operators::DefaultDecl::Ints(&$default) };
    (@default Vec f64, $default:expr) => { $crate::typing::operators::DefaultDecl::Floats(&$default) };
    (@default Vec String, $default:expr) => { $crate::typing::operators::DefaultDecl::Strs(&$default) };
    (@default $($other:ident)*, $default:expr) => {
        compile_error!("an option is a bool, i64, f64 or String, or a Vec of one of these")
    };

    (@range $ty:tt) => { $crate::declare::range::RangeDecl::Any };
    (@range [i64] ($from:literal ..)) => { $crate::declare::range::RangeDecl::Int(Some($from), None) };
    (@range [i64] ($from:literal ..= $to:literal)) => { $crate::declare::range::RangeDecl::Int(Some($from), Some($to)) };
    (@range [f64] ($from:literal ..)) => { $crate::declare::range::RangeDecl::Float(Some($from), None) };
    (@range [f64] ($from:literal ..= $to:literal)) => { $crate::declare::range::RangeDecl::Float(Some($from), Some($to)) };
    (@range [i64] [$($one:literal),+ $(,)?]) => {
        $crate::declare::range::RangeDecl::OneOf($crate::typing::operators::DefaultDecl::Ints(&[$($one),+]))
    };
    (@range [String] [$($one:literal),+ $(,)?]) => {
        $crate::declare::range::RangeDecl::OneOf($crate::typing::operators::DefaultDecl::Strs(&[$($one),+]))
    };
    (@range $ty:tt $($other:tt)*) => {
        compile_error!(
            "an i64 or f64 may have a range, as `times: i64 in (0..) = 1`, and an i64 or String a list of values, as \
             `bits: i64 in [8, 16] = 8`"
        )
    };

    (@value String, $default:expr) => { String::from($default) };
    (@value Vec String, $default:expr) => {{
        let items: &[&str] = &$default;
        items.iter().map(|item| String::from(*item)).collect()
    }};
    (@value Vec $item:ident, $default:expr) => {{
        let items: &[$item] = &$default;
        items.to_vec()
    }};
    (@value $ty:ident, $default:expr) => { $default };
}
