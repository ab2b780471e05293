//! Readers and writers of file formats.

use crate::PassError;
use crate::declare::declarations::{OptionDecl, check_options, fail, is_blank, same, write_options};
use crate::declare::pass::Ctx;
use crate::ir::{Module, Tensor};
use crate::metadata::OptionValue;
use crate::metadata::wire::{Writer, tag};
use crate::names::syntax::{TVMSCRIPT, TVMSCRIPT_EXTENSION, is_extension, is_format_name};
use crate::services::files::{Open, place_beside};
use std::io;
use std::path::Path;

/// A reader: converts files of a format to modules.
#[derive(Clone, Copy)]
pub struct ReaderDecl {
    /// Name, documentation, extensions and options.
    pub format: FormatDecl,
    /// Bytes with which files of the format begin.
    pub begins: &'static [&'static [u8]],
    /// The function that reads files.
    pub read: ReadFn,
}

/// A writer: converts modules to files of a format.
#[derive(Clone, Copy)]
pub struct WriterDecl {
    /// Name, documentation, extensions and options.
    pub format: FormatDecl,
    /// The function that writes files.
    pub write: WriteFn,
}

/// The properties common to readers and writers.
#[derive(Clone, Copy)]
pub struct FormatDecl {
    /// Name of the format, such as `onnx`.
    pub name: &'static str,
    /// Documentation; the first line is the summary.
    pub doc: &'static str,
    /// Extensions of its files, without the dot.
    pub extensions: &'static [&'static str],
    /// Options.
    pub options: &'static [OptionDecl],
    /// An example command line, or empty.
    pub example: &'static str,
}

/// Body of a reader. Options are in declaration order.
pub type ReadFn = fn(&Source<'_>, &[OptionValue], &Ctx) -> Result<Module, PassError>;

/// Body of a writer. Options are in declaration order.
pub type WriteFn = fn(&Module, &mut Output<'_>, &[OptionValue], &Ctx) -> Result<(), PassError>;

/// The file that a reader converts.
///
/// ```
/// use plugin_api::prelude::*;
///
/// let source = Source::of("lines.txt", None, b"one\ntwo\n");
/// assert_eq!(source.text().map(|text| text.lines().count()), Ok(2));
/// assert_eq!((source.name(), source.path()), ("lines.txt", None));
/// ```
pub struct Source<'a> {
    name: &'a str,
    path: Option<&'a Path>,
    bytes: &'a [u8],
    /// Opens files through the host; `None` without a host.
    open: Option<&'a Open<'a>>,
}

impl<'a> Source<'a> {
    /// Creates a source without a host, for tests.
    pub fn of(name: &'a str, path: Option<&'a Path>, bytes: &'a [u8]) -> Source<'a> {
        Source { name, path, bytes, open: None }
    }

    /// Creates a source whose files are opened by a host.
    pub(crate) fn opened_by(name: &'a str, path: Option<&'a Path>, bytes: &'a [u8], open: &'a Open<'a>) -> Source<'a> {
        Source { name, path, bytes, open: Some(open) }
    }

    /// Returns the name of the file in messages: the path as the user wrote it, or `<stdin>`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the absolute path of the file, or `None` if the bytes come from elsewhere, such as standard input. To
    /// open further files that belong to this file, use [`Source::beside`]. An isolated plugin may read the folder of
    /// the file.
    pub fn path(&self) -> Option<&'a Path> {
        self.path
    }

    /// Returns the bytes of the whole file. The host maps the file, so bytes that are never accessed take no memory. A
    /// [`Tensor`] made from a part of the bytes is a handle, not a copy.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes of the whole file, without a copy, for code that needs ownership, such as a decoder that
    /// shares parts.
    ///
    /// # Errors
    /// If the host cannot provide them.
    pub fn shared(&self) -> Result<FileBytes, PassError> {
        match self.open {
            Some(open) => open("").map(FileBytes).map_err(PassError::new),
            None => Ok(FileBytes(Tensor::new(self.bytes))),
        }
    }

    /// Opens another file in the folder of this file or a subfolder. `name` is the path relative to this folder. The
    /// host maps the file, so bytes that are never accessed take no memory, and a [`Tensor`] made from a part of the
    /// bytes is a handle.
    ///
    /// ```
    /// use plugin_api::prelude::*;
    ///
    /// let path = std::env::temp_dir().join("model.toy");
    /// let source = Source::of("model.toy", Some(&path), b"");
    /// let error = source.beside("../weights.bin").expect_err("is outside").to_string();
    /// assert!(error.starts_with("`../weights.bin`: it is not in the folder of the file that names it"), "{error}");
    /// ```
    ///
    /// # Errors
    /// If this source is not a file; if `name` is absolute or leads out of the folder, through `..` or a link; or if
    /// there is no readable regular file. The error contains the name.
    pub fn beside(&self, name: &str) -> Result<FileBytes, PassError> {
        let opened = match self.open {
            Some(open) if !name.is_empty() => open(name),
            _ => place_beside(self.path, name).and_then(|place| {
                let bytes = std::fs::read(place).map_err(|error| format!("it cannot be read: {error}"))?;
                Ok(Tensor::new(&bytes))
            }),
        };
        opened.map(FileBytes).map_err(|why| PassError::new(format!("`{name}`: {why}")))
    }

    /// Returns the whole file as text.
    ///
    /// # Errors
    /// If the file is not UTF-8; the error contains the line.
    pub fn text(&self) -> Result<&'a str, PassError> {
        std::str::from_utf8(self.bytes).map_err(|error| {
            let at = error.valid_up_to();
            let line = self.bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            PassError::new(format!("line {line}: expected UTF-8, found other bytes at byte {at}"))
        })
    }
}

/// The bytes of a file that a reader opened. They stay mapped until the last clone and the last tensor made from them
/// are dropped. If another program truncates the file meanwhile, the run ends with an error that names the file.
#[derive(Clone)]
pub struct FileBytes(Tensor);

impl FileBytes {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl std::fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileBytes({} bytes)", self.bytes().len())
    }
}

/// The file that a writer writes, and files beside it. Each call passes its bytes to the host, so the writer need not
/// hold the whole file in memory. The host replaces existing files only after the writer succeeded.
///
/// ```
/// use plugin_api::prelude::*;
/// use std::io::Write;
///
/// let mut files = Vec::new();
/// let mut take = |name: &str, bytes: &[u8]| {
///     files.push((name.to_string(), bytes.to_vec()));
///     true
/// };
/// let mut output = Output::to("model.toy", None, &mut take);
/// write!(output, "toy {}\n", 1).expect("is taken");
/// output.put_beside("model.weights", &[1, 2]).expect("is taken");
/// assert_eq!(files.last(), Some(&("model.weights".to_string(), vec![1, 2])));
/// ```
pub struct Output<'a> {
    name: &'a str,
    path: Option<&'a Path>,
    take: &'a mut dyn FnMut(&str, &[u8]) -> bool,
}

impl<'a> Output<'a> {
    /// Creates an output without a host, for tests. `take` receives the next bytes of the output (if the name is
    /// empty) or of a file beside it.
    pub fn to(name: &'a str, path: Option<&'a Path>, take: &'a mut dyn FnMut(&str, &[u8]) -> bool) -> Output<'a> {
        Output { name, path, take }
    }

    /// Returns the name of the file in messages: the path as the user wrote it, or `<stdout>`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the absolute path of the file, or `None` if the bytes go elsewhere, such as to standard output.
    pub fn path(&self) -> Option<&'a Path> {
        self.path
    }

    /// Appends bytes to the file.
    ///
    /// # Errors
    /// If the host rejects the bytes, for example because the disk is full. The host reports the reason.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), PassError> {
        self.hand("", bytes)
    }

    /// Appends bytes to another file in the same folder. The first call creates the file. `name` is a file name without
    /// a folder.
    ///
    /// # Errors
    /// As for [`Output::put`], or if the output is not a file in a folder.
    pub fn put_beside(&mut self, name: &str, bytes: &[u8]) -> Result<(), PassError> {
        if name.is_empty() {
            return Err(PassError::new("a file beside the output needs a name"));
        }
        self.hand(name, bytes)
    }

    fn hand(&mut self, name: &str, bytes: &[u8]) -> Result<(), PassError> {
        if (self.take)(name, bytes) { Ok(()) } else { Err(PassError::new("the host does not accept the written data")) }
    }
}

impl io::Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).map(|()| bytes.len()).map_err(|error| io::Error::other(error.to_string()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ReaderDecl {
    /// Checks the names and strings of the declaration.
    pub const fn checked(self) -> ReaderDecl {
        self.format.check("reader");
        self
    }
}

impl WriterDecl {
    /// Checks the names and strings of the declaration.
    pub const fn checked(self) -> WriterDecl {
        self.format.check("writer");
        self
    }
}

impl FormatDecl {
    const fn check(&self, what: &str) {
        let name = self.name;
        if !is_format_name(name) {
            fail(&["`", name, "` is not the name of a ", what, ": write a word of lower-case letters, as in `onnx`"]);
        }
        if same(name, TVMSCRIPT) {
            fail(&["`", name, "` is the name of the built-in format; give the ", what, " another name"]);
        }
        if is_blank(self.doc) {
            fail(&[what, " `", name, "` lacks documentation: write `/// What it does.` above its declaration"]);
        }
        let mut i = 0;
        while i < self.extensions.len() {
            let extension = self.extensions[i];
            let why = if !is_extension(extension) {
                "` is not an extension: write lower-case letters and digits without a dot, as in `onnx`"
            } else if same(extension, TVMSCRIPT_EXTENSION) {
                "` is the extension of TVMScript, which is built in; remove it"
            } else {
                ""
            };
            if !why.is_empty() {
                fail(&["`extensions` of ", what, " `", name, "`: `", extension, why]);
            }
            let mut j = 0;
            while j < i {
                if same(self.extensions[j], extension) {
                    fail(&["`extensions` of ", what, " `", name, "` has `", extension, "` twice; remove one of them"]);
                }
                j += 1;
            }
            i += 1;
        }
        check_options(what, name, self.options);
    }

    const fn write<const N: usize>(&self, w: &mut Writer<N>) {
        w.field(tag::NAME, self.name.as_bytes());
        w.field(tag::DOC, self.doc.as_bytes());
        crate::declare::declarations::write_strs(w, tag::EXTENSION, self.extensions);
        write_options(w, self.options);
        if !self.example.is_empty() {
            w.field(tag::EXAMPLE, self.example.as_bytes());
        }
    }
}

/// Checks that the readers and the writers of a plugin have distinct names.
pub(crate) const fn check(readers: &[&ReaderDecl], writers: &[&WriterDecl]) {
    let mut i = 0;
    while i < readers.len() {
        let mut j = 0;
        while j < i {
            once("readers", readers[j].format.name, readers[i].format.name);
            j += 1;
        }
        i += 1;
    }
    let mut i = 0;
    while i < writers.len() {
        let mut j = 0;
        while j < i {
            once("writers", writers[j].format.name, writers[i].format.name);
            j += 1;
        }
        i += 1;
    }
}

const fn once(what: &str, first: &str, second: &str) {
    if same(first, second) {
        fail(&["two ", what, " of the plugin are called `", first, "`; rename one of them"]);
    }
}

/// Writes the readers and writers of a plugin into its metadata.
pub(crate) const fn write<const N: usize>(w: &mut Writer<N>, readers: &[&ReaderDecl], writers: &[&WriterDecl]) {
    let mut i = 0;
    while i < readers.len() {
        let at = w.open(tag::READER);
        readers[i].format.write(w);
        let mut j = 0;
        while j < readers[i].begins.len() {
            w.field(tag::BEGINS, readers[i].begins[j]);
            j += 1;
        }
        w.close(at);
        i += 1;
    }
    let mut i = 0;
    while i < writers.len() {
        let at = w.open(tag::WRITER);
        writers[i].format.write(w);
        w.close(at);
        i += 1;
    }
}

/// Declares a reader: a file format, and the function that converts a file to a module.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::ir::{AttrsId, BodyBuilder};
///
/// declare_reader! {
///     /// Reads lists of sizes.
///     ///
///     /// Each line becomes a function whose parameter is a tensor of this size.
///     pub reader SIZES = "sizes" {
///         extensions: ["sizes"],
///         options: SizesOptions {
///             /// More functions are refused.
///             most: i64 in (1..) = 100,
///         },
///         example: "passhost run model.sizes -o model.py",
///         run: read,
///     }
/// }
///
/// fn read(source: &Source, options: &SizesOptions, _: &Ctx) -> Result<Module, PassError> {
///     let mut functions = Vec::new();
///     for (at, line) in source.text()?.lines().enumerate() {
///         let Ok(size) = line.parse::<i64>() else {
///             bail!("line {}: expected a size, found `{line}`", at + 1);
///         };
///         let mut b = BodyBuilder::new();
///         b.begin_function(0, AttrsId::NONE, None);
///         let ty = b.ty(&Type::tensor([Dim::Int(size)], DType::F32));
///         let x = b.param("x", ty);
///         b.end_function(x, ty);
///         functions.push((format!("f{at}"), b.finish()?));
///     }
///     if functions.len() as i64 > options.most {
///         bail!("expected at most {} lines, found {}", options.most, functions.len());
///     }
///     Ok(Module::new(functions))
/// }
/// let source = Source::of("a.sizes", None, b"3\n4\n");
/// let module = read(&source, &SizesOptions::default(), &Ctx::detached()).expect("two functions");
/// assert_eq!(module.functions().count(), 2);
/// ```
///
/// | fact | what |
/// |---|---|
/// | `extensions` | list of file extensions, without the dot |
/// | `begins` | optional list of byte strings, `[b"SIZES"]`: files with an unknown extension are also selected if they begin with one of these |
/// | `options` | as in [`declare_pass!`](crate::declare_pass); users write `--from 'sizes{most=3}'` |
/// | `example` | optional command line for `passhost explain` |
/// | `run` | a `fn(&Source, &Options, &Ctx) -> Result<Module, PassError>`; without `options`, that argument is omitted |
///
/// The host verifies the module. It prefixes errors and warnings with the file name, so messages need only the location
/// in the file. The declaration needs documentation, and goes into the list `readers` of
/// [`export_plugin!`](crate::export_plugin).
#[macro_export]
macro_rules! declare_reader {
    ($(#[doc = $doc:literal])* $vis:vis reader $NAME:ident = $name:literal { $($facts:tt)* }) => {
        $crate::__format! { @facts reader { [$($doc)*] [$vis] $NAME $name } { [] [] [] [] [] } $($facts)* , }
    };
    ($($other:tt)*) => {
        compile_error!(
            "a reader is declared like `pub reader NAME = \"format\" { extensions: [\"ext\"], run: a_function }`"
        );
    };
}

/// Declares a writer: a file format, and the function that writes a module to a file.
///
/// ```
/// use plugin_api::prelude::*;
///
/// declare_writer! {
///     /// Writes the names of the functions, one in each line.
///     pub writer NAMES = "names" { extensions: ["names"], run: write }
/// }
///
/// fn write(module: &Module, output: &mut Output, _: &Ctx) -> Result<(), PassError> {
///     module.functions().try_for_each(|(name, _)| output.put(format!("{name}\n").as_bytes()))
/// }
/// # let _ = (NAMES, write);
/// ```
///
/// `extensions`, `options` and `example` are as in [`declare_reader!`]. `run` is a `fn(&Module, &mut Output, &Options,
/// &Ctx) -> Result<(), PassError>`; without `options`, that argument is omitted. The declaration needs documentation,
/// and goes into the list `writers` of [`export_plugin!`](crate::export_plugin).
#[macro_export]
macro_rules! declare_writer {
    ($(#[doc = $doc:literal])* $vis:vis writer $NAME:ident = $name:literal { $($facts:tt)* }) => {
        $crate::__format! { @facts writer { [$($doc)*] [$vis] $NAME $name } { [] [] [] [] [] } $($facts)* , }
    };
    ($($other:tt)*) => {
        compile_error!(
            "a writer is declared like `pub writer NAME = \"format\" { extensions: [\"ext\"], run: a_function }`"
        );
    };
}

/// Parts of [`declare_reader!`] and [`declare_writer!`]; not for direct use. `@facts` assigns the facts to slots:
/// extensions, begins, options, example, run.
#[doc(hidden)]
#[macro_export]
macro_rules! __format {
    (@facts $k:ident $h:tt { [] $b:tt $o:tt $e:tt $r:tt } extensions: [$($v:literal),* $(,)?], $($rest:tt)*) => {
        $crate::__format! { @facts $k $h { [[$($v),*]] $b $o $e $r } $($rest)* }
    };
    (@facts reader $h:tt { $x:tt [] $o:tt $e:tt $r:tt } begins: [$($v:literal),* $(,)?], $($rest:tt)*) => {
        $crate::__format! { @facts reader $h { $x [[$($v),*]] $o $e $r } $($rest)* }
    };
    (@facts $k:ident $h:tt { $x:tt $b:tt [] $e:tt $r:tt } options: $v:ident $w:tt, $($rest:tt)*) => {
        $crate::__format! { @facts $k $h { $x $b [$v $w] $e $r } $($rest)* }
    };
    (@facts $k:ident $h:tt { $x:tt $b:tt $o:tt [] $r:tt } example: $v:literal, $($rest:tt)*) => {
        $crate::__format! { @facts $k $h { $x $b $o [$v] $r } $($rest)* }
    };
    (@facts $k:ident $h:tt { $x:tt $b:tt $o:tt $e:tt [] } run: $v:expr, $($rest:tt)*) => {
        $crate::__format! { @facts $k $h { $x $b $o $e [$v] } $($rest)* }
    };
    (@facts $k:ident $h:tt $slots:tt $(,)?) => { $crate::__format! { @declare $k $h $slots } };
    // A key that no arm above accepted: it is unknown or repeated, or its value has the wrong kind.
    (@facts $k:ident $h:tt $slots:tt extensions $($rest:tt)*) => {
        $crate::__format! { @once $k "extensions" "extensions: [\"onnx\"]" }
    };
    (@facts reader $h:tt $slots:tt begins $($rest:tt)*) => {
        $crate::__format! { @once reader "begins" "begins: [b\"ONNX\"]" }
    };
    (@facts $k:ident $h:tt $slots:tt options $($rest:tt)*) => {
        $crate::__format! { @once $k "options" "options: Options { /// How often.\n times: i64 = 1 }" }
    };
    (@facts $k:ident $h:tt $slots:tt example $($rest:tt)*) => {
        $crate::__format! { @once $k "example" "example: \"passhost run model.onnx\"" }
    };
    (@facts $k:ident $h:tt $slots:tt run $($rest:tt)*) => { $crate::__format! { @once $k "run" "run: a_function" } };
    (@facts reader $h:tt $slots:tt $key:ident $($rest:tt)*) => {
        compile_error!(concat!(
            "a reader has no field `", stringify!($key), "`; it has `extensions`, `run`, `begins`, `options` and `example`"
        ));
    };
    (@facts writer $h:tt $slots:tt $key:ident $($rest:tt)*) => {
        compile_error!(concat!(
            "a writer has no field `", stringify!($key), "`; it has `extensions`, `run`, `options` and `example`"
        ));
    };
    (@facts $k:ident $h:tt $slots:tt $($rest:tt)*) => {
        compile_error!(concat!(
            "found `", stringify!($($rest)*), "` where a field of a ", stringify!($k), " is expected, as `run: a_function`"
        ));
    };
    (@once $k:ident $key:literal $example:literal) => {
        compile_error!(concat!("`", $key, "` may appear once in a ", stringify!($k), ", as `", $example, "`"));
    };

    (@declare $k:ident { $doc:tt $vis:tt $NAME:ident $name:literal } { [] $($slots:tt)* }) => {
        compile_error!(concat!(
            "`extensions` of ", stringify!($k), " `", $name, "` is missing; write, for example, `extensions: [\"", $name, "\"],`"
        ));
    };
    (@declare $k:ident { $doc:tt $vis:tt $NAME:ident $name:literal } { $x:tt $b:tt $o:tt $e:tt [] }) => {
        compile_error!(concat!(
            "`run` of ", stringify!($k), " `", $name, "` is missing; it names the function that is its body"
        ));
    };
    (@declare reader { [$($doc:literal)*] [$vis:vis] $NAME:ident $name:literal } {
        [[$($extension:literal),*]] [$([$($begin:literal),*])?] [$($Options:ident $fields:tt)?] [$($example:literal)?] [$run:expr]
    }) => {
        $($crate::__options! { [$vis] $Options $name $fields })?

        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::formats::ReaderDecl = $crate::declare::formats::ReaderDecl {
            format: $crate::__format!(@format $name [$($doc)*] [$($extension)*] [$($Options)?] [$($example)?]),
            begins: &[$($($begin as &[u8]),*)?],
            read: $crate::__format!(@read $run $(, $Options)?),
        }
        .checked();
    };
    (@declare writer { [$($doc:literal)*] [$vis:vis] $NAME:ident $name:literal } {
        [[$($extension:literal),*]] $begins:tt [$($Options:ident $fields:tt)?] [$($example:literal)?] [$run:expr]
    }) => {
        $($crate::__options! { [$vis] $Options $name $fields })?

        $(#[doc = $doc])*
        $vis const $NAME: $crate::declare::formats::WriterDecl = $crate::declare::formats::WriterDecl {
            format: $crate::__format!(@format $name [$($doc)*] [$($extension)*] [$($Options)?] [$($example)?]),
            write: $crate::__format!(@write $run $(, $Options)?),
        }
        .checked();
    };

    (@format $name:literal [$($doc:literal)*] [$($extension:literal)*] [$($Options:ident)?] [$($example:literal)?]) => {
        $crate::declare::formats::FormatDecl {
            name: $name,
            doc: concat!($($doc, "\n"),*),
            extensions: &[$($extension),*],
            options: $crate::__pass!(@decls $($Options)?),
            example: concat!($($example)?),
        }
    };

    (@read $run:expr) => {
        |source, _, ctx| {
            let run: fn(&$crate::declare::formats::Source<'_>, &$crate::declare::pass::Ctx)
                -> Result<$crate::ir::Module, $crate::PassError> = $run;
            run(source, ctx)
        }
    };
    (@read $run:expr, $Options:ident) => {
        |source, values, ctx| {
            let run: fn(&$crate::declare::formats::Source<'_>, &$Options, &$crate::declare::pass::Ctx)
                -> Result<$crate::ir::Module, $crate::PassError> = $run;
            run(source, &$Options::from_values(values)?, ctx)
        }
    };
    (@write $run:expr) => {
        |module, output, _, ctx| {
            let run: fn(&$crate::ir::Module, &mut $crate::declare::formats::Output<'_>, &$crate::declare::pass::Ctx)
                -> Result<(), $crate::PassError> = $run;
            run(module, output, ctx)
        }
    };
    (@write $run:expr, $Options:ident) => {
        |module, output, values, ctx| {
            let run: fn(
                &$crate::ir::Module,
                &mut $crate::declare::formats::Output<'_>,
                &$Options,
                &$crate::declare::pass::Ctx,
            ) -> Result<(), $crate::PassError> = $run;
            run(module, output, &$Options::from_values(values)?, ctx)
        }
    };
}
