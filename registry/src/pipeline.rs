//! Pipelines as text. A pipeline lists passes: `relax.Normalize,acme.GroupConvolutions{through=[relax.nn.relu]}`.
//! It can group them: `Sequential(name=late,opt_level=2)[relax.Normalize,acme.Fold]`, repeat them until nothing
//! changes: `repeat(8)[relax.Normalize,acme.Fold]`, and select all passes up to a level: `all(opt_level=1)`. A
//! comma may follow the last item of each list.

use passhost_lang::metadata::{Allowed, OptionInfo, OptionType, OptionValue, PassInfo};
use passhost_lang::names::{did_you_mean, listed, nearest, with_more};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// The kind of item that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A pass.
    Pass,
    /// An instrument.
    Instrument,
    /// A reader of a file format.
    Reader,
    /// A writer of a file format.
    Writer,
}

impl Named {
    /// Returns the kind with an article: `a pass`.
    pub fn one(self) -> &'static str {
        match self {
            Named::Pass => "a pass",
            Named::Instrument => "an instrument",
            Named::Reader => "a reader",
            Named::Writer => "a writer",
        }
    }

    /// Returns the kind without an article: `pass`.
    pub fn word(self) -> &'static str {
        match self {
            Named::Pass => "pass",
            Named::Instrument => "instrument",
            Named::Reader => "reader",
            Named::Writer => "writer",
        }
    }
}

/// Formats the kind without an article.
impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// A pipeline as written: names and options, not yet resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// Passes of the pipeline in order.
    pub stages: Vec<Stage>,
}

/// One pass of a pipeline, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Full or short name of a pass; for other forms, `Sequential`, `repeat` or `all`.
    pub name: String,
    /// The given options.
    pub options: Vec<(String, OptionValue)>,
    /// Form of the stage.
    pub form: Form,
    /// Position of the name in the text.
    pub span: Range<usize>,
}

/// The form of one item of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A pass by name: `acme.A{n=1}`.
    Pass,
    /// A group of passes: `Sequential(name=late)[acme.A,acme.B]`.
    Sequential(Vec<Stage>),
    /// Passes that run in order, repeatedly, until none of them changes the module: `repeat(limit=8)[acme.A,acme.B]`.
    Repeat(Vec<Stage>),
    /// All passes up to an opt_level: `all(opt_level=1)`.
    All,
}

impl Form {
    /// Returns the members of a Sequential, repeated or not.
    pub fn members(&self) -> Option<&[Stage]> {
        match self {
            Form::Sequential(members) | Form::Repeat(members) => Some(members),
            Form::Pass | Form::All => None,
        }
    }
}

/// The word for a group of passes.
pub const SEQUENTIAL: &str = "Sequential";
/// The word for passes that run until nothing changes.
pub const REPEAT: &str = "repeat";
/// Default maximum number of rounds.
const ROUNDS: u32 = 16;
/// The word for all passes up to a level.
const ALL: &str = "all";
/// Maximum nesting depth of Sequentials, including Sequentials built by programs, because these are printed as text.
const DEEPEST: u32 = 64;

/// Returns the syntax of a word that requires brackets around passes.
pub(crate) fn form_of(name: &str) -> Option<&'static str> {
    let is = |word: &str| name.eq_ignore_ascii_case(word);
    let forms = [(SEQUENTIAL, "Sequential(name=late)[...]"), (REPEAT, "repeat(8)[...]"), (ALL, "all()")];
    forms.into_iter().find(|(word, _)| is(word)).map(|(_, form)| form)
}

/// Returns the syntax that names the group starting with `word`.
pub(crate) fn named_form(word: &str) -> Option<&'static str> {
    match form_of(word)? {
        form if form.starts_with(SEQUENTIAL) => Some(form),
        form => form.starts_with(REPEAT).then_some("repeat(name=late)[...]"),
    }
}

/// An error in a pipeline.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PipelineError {
    /// The text is not a pipeline.
    #[error("{what} `{}`, column {}: {}", excerpt(text, *at), text[..*at].chars().count() + 1, expectation(expected, text, *at))]
    Syntax {
        /// The kind of text.
        what: &'static str,
        /// The text.
        text: String,
        /// Byte position.
        at: usize,
        /// The expected token.
        expected: Cow<'static, str>,
    },
    /// An unknown option.
    #[error("{}", with_more(
        &format!("{what} `{pass}` has no option `{option}`{}", did_you_mean(.near)),
        &format!("its options: {}", listed(known)),
    ))]
    UnknownOption {
        /// The kind of the owner.
        what: Named,
        /// Full name of the pass or instrument.
        pass: String,
        /// The given option.
        option: String,
        /// The most similar options.
        near: Vec<String>,
        /// All options with their types.
        known: Vec<String>,
    },
    /// A value has the wrong type.
    #[error("option `{option}` of `{pass}` is `{found}`, but must be {} {ty} (default {default}): {doc}", article(ty))]
    WrongType {
        /// Full name of the pass.
        pass: String,
        /// The option.
        option: String,
        /// The value found.
        found: String,
        /// The expected type.
        ty: String,
        /// The default.
        default: String,
        /// Documentation of the option.
        doc: String,
    },
    /// The option does not allow the value.
    #[error("option `{option}` of `{pass}` is `{found}`, which is not in {allowed} (default {default}): {doc}")]
    NotAllowed {
        /// Full name of the pass.
        pass: String,
        /// The option.
        option: String,
        /// The value found.
        found: String,
        /// The allowed values.
        allowed: Allowed,
        /// The default.
        default: String,
        /// Documentation of the option.
        doc: String,
    },
    /// A Sequential built by a program is nested more deeply than text allows.
    #[error("Sequentials are nested more than {DEEPEST} deep; put some of them next to each other")]
    TooDeep,
    /// A Sequential has an empty name.
    #[error("option `name` of `{0}` is empty; give it a name, or leave it out")]
    NoName(&'static str),
    /// A repetition has fewer than one round.
    #[error("option `limit` of `repeat` is {0}, but must be from 1 to 4294967295")]
    NoRounds(i64),
    /// An option occurs twice.
    #[error("option `{option}` of `{pass}` is given twice; give it once")]
    Twice {
        /// Full name of the pass.
        pass: String,
        /// The option.
        option: String,
    },
    /// An option without a default is missing.
    #[error("option `{option}` of `{pass}` must be given: {doc}")]
    MissingOption {
        /// Full name of the pass.
        pass: String,
        /// The option.
        option: String,
        /// Documentation of the option.
        doc: String,
    },
}

fn article(ty: &str) -> &'static str {
    if ty.starts_with('i') { "an" } else { "a" }
}

/// Formats the expected token and the text found at a position.
fn expectation(expected: &str, text: &str, at: usize) -> String {
    match text.get(at..).and_then(|rest| rest.chars().next()) {
        Some(c) => format!("expected {expected}, found `{c}`"),
        None => format!("expected {expected}, found the end"),
    }
}

/// Returns an excerpt of a text around a position, short enough for a message.
fn excerpt(text: &str, at: usize) -> String {
    const AROUND: usize = 60;
    let start = text[..at].char_indices().rev().nth(AROUND).map_or(0, |(i, _)| i);
    let end = text[at..].char_indices().nth(AROUND).map_or(text.len(), |(i, _)| at + i);
    let cut = |is_cut: bool| if is_cut { "..." } else { "" };
    format!("{}{}{}", cut(start > 0), &text[start..end], cut(end < text.len()))
}

impl PipelineError {
    /// Returns the message for display next to the text and the position.
    pub fn beside_its_text(&self) -> String {
        match self {
            PipelineError::Syntax { what, text, at, expected } => {
                format!("in the {what}: {}", expectation(expected, text, *at))
            }
            other => other.to_string(),
        }
    }

    /// Returns the position of a syntax error.
    pub fn span(&self) -> Option<Range<usize>> {
        match self {
            PipelineError::Syntax { text, at, .. } => {
                let len = text.get(*at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
                Some(*at..at + len)
            }
            _ => None,
        }
    }
}

impl Pipeline {
    /// Parses a pipeline; the empty string is the empty pipeline.
    ///
    /// # Errors
    /// The position, and the expected token.
    pub fn parse(text: &str) -> Result<Pipeline, PipelineError> {
        Pipeline::parse_as(Named::Pass, text)
    }

    /// Parses the name and options of one format.
    ///
    /// # Errors
    /// The position, and the expected token.
    pub(crate) fn one_format(what: Named, text: &str) -> Result<Stage, PipelineError> {
        let mut parser = Parser { what, text, at: 0, depth: 0 };
        parser.space();
        let stage = parser.stage()?;
        parser.space();
        if parser.at < text.len() { Err(parser.error("the end")) } else { Ok(stage) }
    }

    /// Parses names of passes or instruments, each with options.
    pub(crate) fn parse_as(what: Named, text: &str) -> Result<Pipeline, PipelineError> {
        let mut parser = Parser { what, text, at: 0, depth: 0 };
        let mut stages = Vec::new();
        parser.space();
        while parser.at < text.len() {
            let stage = parser.stage()?;
            parser.space();
            if parser.at < text.len() {
                parser.after(&stage, "`,` or the end")?;
                parser.space();
            }
            stages.push(stage);
        }
        Ok(Pipeline { stages })
    }

    /// Checks that Sequentials are not nested more deeply than text allows.
    pub(crate) fn check_depth(&self) -> Result<(), PipelineError> {
        // An explicit stack, because the nesting is not limited yet.
        let mut work: Vec<(&Stage, u32)> = self.stages.iter().map(|stage| (stage, 1)).collect();
        while let Some((stage, depth)) = work.pop() {
            let Some(members) = stage.form.members() else { continue };
            if depth > DEEPEST {
                return Err(PipelineError::TooDeep);
            }
            work.extend(members.iter().map(|member| (member, depth + 1)));
        }
        Ok(())
    }

    /// Returns the names of its Sequentials, including nested Sequentials.
    pub fn sequentials(&self) -> BTreeSet<String> {
        fn find(stages: &[Stage], names: &mut BTreeSet<String>) {
            for stage in stages {
                let Some(members) = stage.form.members() else { continue };
                names.extend(stage.options.iter().filter_map(|(key, value)| match value {
                    OptionValue::Str(name) if key == "name" => Some(name.clone()),
                    _ => None,
                }));
                find(members, names);
            }
        }
        let mut names = BTreeSet::new();
        find(&self.stages, &mut names);
        names
    }

    /// Parses one pass of a pipeline.
    ///
    /// # Errors
    /// The position, and the expected token.
    pub fn one(text: &str) -> Result<Stage, PipelineError> {
        let mut parser = Parser { what: Named::Pass, text, at: 0, depth: 0 };
        let stage = parser.stage()?;
        if parser.at < text.len() { Err(parser.error("the end")) } else { Ok(stage) }
    }
}

/// Prints the pipeline in a canonical form.
impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_stages(f, &self.stages)
    }
}

fn write_stages(f: &mut fmt::Formatter<'_>, stages: &[Stage]) -> fmt::Result {
    for (i, stage) in stages.iter().enumerate() {
        write!(f, "{}{stage}", if i > 0 { "," } else { "" })?;
    }
    Ok(())
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let items: Vec<String> = self.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match &self.form {
            Form::Pass => f.write_str(&options_text(&self.options)),
            Form::All => write!(f, "({})", items.join(",")),
            Form::Sequential(members) | Form::Repeat(members) => {
                if !items.is_empty() {
                    write!(f, "({})", items.join(","))?;
                }
                f.write_str("[")?;
                write_stages(f, members)?;
                f.write_str("]")
            }
        }
    }
}

fn option(name: &str, ty: OptionType, default: OptionValue, doc: &str) -> OptionInfo {
    OptionInfo { name: name.to_string(), ty, default: Some(default), allowed: Allowed::All, doc: doc.to_string() }
}

fn as_level(option: &OptionValue) -> Option<i32> {
    let OptionValue::Int(value) = *option else { return None };
    Some(i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX }))
}

/// The options of a Sequential in a pipeline.
pub(crate) struct SequentialOptions {
    /// All options, in the order of their declaration.
    pub(crate) all: Vec<OptionValue>,
    /// Name of the Sequential in plans and summaries.
    pub(crate) name: String,
    /// Lowest opt_level at which the Sequential runs.
    pub(crate) opt_level: i32,
    /// Passes whose effect must hold before the Sequential, as written.
    pub(crate) required: Vec<String>,
    /// Maximum number of rounds, if the Sequential is repeated.
    pub(crate) rounds: Option<u32>,
}

/// Resolves the options of a Sequential, which may be repeated; `name` is the default name.
///
/// # Errors
/// Fails if an option is unknown or has the wrong type.
pub(crate) fn sequential_options(
    form: &'static str,
    name: Option<&str>,
    given: &[(String, OptionValue)],
) -> Result<SequentialOptions, PipelineError> {
    let name = OptionValue::Str(name.unwrap_or(form).to_string());
    let needs = "full names of passes that it requires";
    let mut known = vec![
        option("name", OptionType::Str, name, "the name in plans and summaries"),
        option("opt_level", OptionType::Int, OptionValue::Int(0), "the lowest opt_level at which it runs"),
        option("required", OptionType::StrList, OptionValue::List([].into()), needs),
    ];
    if form == REPEAT {
        let limit = OptionValue::Int(i64::from(ROUNDS));
        known.push(option(
            "limit",
            OptionType::Int,
            limit,
            "the maximum number of rounds; the last round must change nothing",
        ));
    }
    let all = resolve(Named::Pass, form, &known, given)?;
    let text = |value: &OptionValue| match value {
        OptionValue::Str(text) => text.clone(),
        other => other.to_string(),
    };
    let (mut name, mut required) = (String::new(), Vec::new());
    for value in &all {
        match value {
            OptionValue::List(items) => required.extend(items.iter().map(text)),
            OptionValue::Str(_) => name = text(value),
            _ => {}
        }
    }
    if name.trim().is_empty() {
        return Err(PipelineError::NoName(form));
    }
    let rounds = all.get(3).map(rounds).transpose()?;
    Ok(SequentialOptions { name, opt_level: sequential_level(&all), required, rounds, all })
}

/// Returns the maximum number of rounds.
fn rounds(limit: &OptionValue) -> Result<u32, PipelineError> {
    let OptionValue::Int(limit) = *limit else { return Ok(ROUNDS) };
    u32::try_from(limit).ok().filter(|limit| *limit > 0).ok_or(PipelineError::NoRounds(limit))
}

/// Returns the opt_level among the options of a Sequential.
pub(crate) fn sequential_level(options: &[OptionValue]) -> i32 {
    options.iter().find_map(as_level).unwrap_or(0)
}

/// Returns the level up to which `all` selects passes; the level of the context by default.
///
/// # Errors
/// Fails if an option is unknown or has the wrong type.
pub(crate) fn all_options(context: i32, given: &[(String, OptionValue)]) -> Result<i32, PipelineError> {
    let doc = "the highest opt_level of the selected passes; default: the opt_level of the context";
    let known = [option("opt_level", OptionType::Int, OptionValue::Int(i64::from(context)), doc)];
    let options = resolve(Named::Pass, ALL, &known, given)?;
    Ok(options.iter().find_map(as_level).unwrap_or(context))
}

/// Formats options as in a pipeline; empty if there are none.
pub fn options_text(options: &[(String, OptionValue)]) -> String {
    if options.is_empty() {
        return String::new();
    }
    let items: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", items.join(", "))
}

struct Parser<'a> {
    what: Named,
    text: &'a str,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn error(&self, expected: impl Into<Cow<'static, str>>) -> PipelineError {
        self.error_at(self.at, expected)
    }

    fn error_at(&self, at: usize, expected: impl Into<Cow<'static, str>>) -> PipelineError {
        let what = match self.what {
            Named::Pass => "pipeline",
            Named::Instrument => "instrument",
            Named::Reader | Named::Writer => "format",
        };
        PipelineError::Syntax { what, text: self.text.to_string(), at, expected: expected.into() }
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn expect(&mut self, c: char, expected: &'static str) -> Result<(), PipelineError> {
        if self.peek() != Some(c) {
            return Err(self.error(expected));
        }
        self.at += c.len_utf8();
        Ok(())
    }

    fn name(&mut self, expected: &'static str) -> Result<String, PipelineError> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error(expected));
        }
        self.at += end;
        Ok(rest[..end].to_string())
    }

    fn stage(&mut self) -> Result<Stage, PipelineError> {
        let start = self.at;
        let name = self.name(match (self.what, self.peek()) {
            (Named::Pass, Some('*')) => "the name of a pass (wildcards are not supported; `all()` means all passes)",
            (Named::Pass, _) => "the name of a pass",
            (Named::Instrument, _) => "the name of an instrument",
            (Named::Reader | Named::Writer, _) => "the name of a format",
        })?;
        let span = start..self.at;
        let behind = self.text[self.at..].trim_start();
        if behind.starts_with(['(', '[', '{']) {
            self.space();
        }
        if self.what == Named::Pass && name == SEQUENTIAL && matches!(self.peek(), Some('(' | '[')) {
            let options = if self.peek() == Some('(') { self.options(')', "`,` or `)`")? } else { Vec::new() };
            self.space();
            let form = Form::Sequential(self.members()?);
            return Ok(Stage { name, options, form, span });
        }
        if self.what == Named::Pass && name == REPEAT && matches!(self.peek(), Some('(' | '[')) {
            let options = if self.peek() == Some('(') { self.limit()? } else { Vec::new() };
            self.space();
            let form = Form::Repeat(self.members()?);
            return Ok(Stage { name, options, form, span });
        }
        if self.what == Named::Pass && name == ALL && self.peek() == Some('(') {
            let options = self.options(')', "`,` or `)`")?;
            return Ok(Stage { name, options, form: Form::All, span });
        }
        if self.what == Named::Pass && form_of(&name).is_some() && matches!(self.peek(), Some('(' | '[')) {
            return Err(self.error_at(start, "`Sequential(...)[...]`, `repeat(...)[...]` or `all(...)`"));
        }
        let options = if self.peek() == Some('{') { self.options('}', "`,` or `}`")? } else { Vec::new() };
        Ok(Stage { name, options, form: Form::Pass, span })
    }

    /// Reads the comma after a pass. Reports syntax of other languages with a specific message.
    fn after(&mut self, stage: &Stage, expected: &'static str) -> Result<(), PipelineError> {
        let has_begun = self.text[..self.at].ends_with(char::is_whitespace);
        match self.peek() {
            Some(',') => {
                self.at += 1;
                Ok(())
            }
            Some('(') if stage.form == Form::Pass && stage.options.is_empty() => {
                let rest = &self.text[self.at + 1..];
                let options =
                    rest.split_once(')').map(|(options, _)| options.trim()).filter(|options| options.len() < 60);
                let options = options.filter(|options| options.contains('=')).unwrap_or("option=value");
                Err(self.error(format!("options in braces, as in `{}{{{options}}}`", stage.name)))
            }
            Some('*' | '?') => Err(self.error(
                "the whole name of a pass (wildcards are not supported; `all(opt_level=1)` means all up to a level)",
            )),
            Some(c) if has_begun && c.is_alphanumeric() => {
                Err(self.error(format!("{expected} (separate passes by commas)")))
            }
            _ => Err(self.error(expected)),
        }
    }

    /// Reads the options of `repeat`; its `limit` can be given by position.
    fn limit(&mut self) -> Result<Vec<(String, OptionValue)>, PipelineError> {
        let digits = self.text[self.at + 1..].trim_start();
        if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            return self.options(')', "`,` or `)`");
        }
        self.at = self.text.len() - digits.len();
        let limit = OptionValue::parse_at(self.text, &mut self.at, 0);
        let limit = limit.map_err(|(at, expected)| self.error_at(at, expected))?;
        let mut options = vec![("limit".to_string(), limit)];
        self.space();
        if self.peek() == Some(',') {
            options.extend(self.options(')', "`,` or `)`")?);
            return Ok(options);
        }
        self.expect(')', "`,` or `)`")?;
        Ok(options)
    }

    /// Reads options in brackets, with an optional trailing comma.
    fn options(&mut self, end: char, expected: &'static str) -> Result<Vec<(String, OptionValue)>, PipelineError> {
        let mut options = Vec::new();
        self.at += 1;
        self.space();
        while self.peek() != Some(end) {
            let key = self.name("the name of an option")?;
            self.space();
            self.expect('=', "`=`")?;
            let value = OptionValue::parse_at(self.text, &mut self.at, 0);
            options.push((key, value.map_err(|(at, expected)| self.error_at(at, expected))?));
            self.space();
            // Any other character ends the word.
            if self.peek().is_some_and(|c| !(c.is_alphanumeric() || ",()[]{}".contains(c))) {
                return Err(self.error(format!("{expected}, or quotes around the whole value, as in \"a=b\"")));
            }
            self.separator(end, expected)?;
        }
        self.at += 1;
        Ok(options)
    }

    /// Reads passes in brackets, with an optional trailing comma.
    fn members(&mut self) -> Result<Vec<Stage>, PipelineError> {
        if self.depth >= DEEPEST {
            return Err(self.error("a Sequential that is nested at most 64 deep"));
        }
        self.expect('[', "`[`")?;
        self.depth += 1;
        let mut members = Vec::new();
        self.space();
        while self.peek() != Some(']') {
            let stage = self.stage()?;
            self.space();
            if self.peek() != Some(']') {
                self.after(&stage, "`,` or `]`")?;
                self.space();
            }
            members.push(stage);
        }
        self.at += 1;
        self.depth -= 1;
        Ok(members)
    }

    /// Reads a comma, or stops at the end of the list.
    fn separator(&mut self, end: char, expected: &'static str) -> Result<(), PipelineError> {
        self.space();
        if self.peek() != Some(end) {
            self.expect(',', expected)?;
            self.space();
        }
        Ok(())
    }
}

/// Returns the values of all options of a pass, in the order of their declaration.
///
/// # Errors
/// Fails if an option is unknown, has the wrong type, is given twice, or is missing.
pub fn resolve_options(info: &PassInfo, given: &[(String, OptionValue)]) -> Result<Vec<OptionValue>, PipelineError> {
    resolve(Named::Pass, &info.name, &info.options, given)
}

/// Resolves the options of a pass, instrument or format, given its name and declared options.
pub(crate) fn resolve(
    what: Named,
    name: &str,
    options: &[OptionInfo],
    given: &[(String, OptionValue)],
) -> Result<Vec<OptionValue>, PipelineError> {
    if !given.is_empty() {
        let declared: HashSet<&str> = options.iter().map(|option| option.name.as_str()).collect();
        let mut seen = HashSet::new();
        for (key, _) in given {
            if !seen.insert(key) {
                return Err(PipelineError::Twice { pass: name.to_string(), option: key.clone() });
            }
            if !declared.contains(key.as_str()) {
                return Err(unknown_option(what, name, options, key));
            }
        }
    }
    let given: HashMap<&str, &OptionValue> = given.iter().map(|(key, value)| (key.as_str(), value)).collect();
    options.iter().map(|option| resolve_option(name, option, given.get(option.name.as_str()).copied())).collect()
}

fn unknown_option(what: Named, name: &str, options: &[OptionInfo], key: &str) -> PipelineError {
    let near = nearest(key, options.iter().map(|option| option.name.as_str()));
    let mut known: Vec<String> = options.iter().map(|o| format!("{}: {}", o.name, o.ty)).collect();
    if known.is_empty() {
        known.push("none".to_string());
    }
    PipelineError::UnknownOption { what, pass: name.to_string(), option: key.to_string(), near, known }
}

/// Describes the expected type of a value, and the expected range if the value is a number outside the range.
pub(crate) fn wanted(ty: OptionType, found: &OptionValue) -> String {
    match (ty, found) {
        (OptionType::Int, OptionValue::Float(number)) if number.fract() == 0.0 && number.abs() >= 2_f64.powi(63) => {
            format!("{ty} from {} to {}", i64::MIN, i64::MAX)
        }
        _ => ty.to_string(),
    }
}

fn resolve_option(name: &str, option: &OptionInfo, given: Option<&OptionValue>) -> Result<OptionValue, PipelineError> {
    let Some(value) = given else {
        let doc = option.doc.trim().to_string();
        let missing = || PipelineError::MissingOption { pass: name.to_string(), option: option.name.clone(), doc };
        return option.default.clone().ok_or_else(missing);
    };
    let (pass, found, doc) = (name.to_string(), value.to_string(), option.doc.trim().to_string());
    let default = option.default.as_ref().map_or("none".to_string(), ToString::to_string);
    let (option, ty, allowed) = (option.name.clone(), option.ty, option.allowed.clone());
    match value.clone().coerce(ty) {
        None => Err(PipelineError::WrongType { pass, option, found, ty: wanted(ty, value), default, doc }),
        Some(value) if !allowed.has(&value) => {
            Err(PipelineError::NotAllowed { pass, option, found, allowed, default, doc })
        }
        Some(value) => Ok(value),
    }
}
