//! What stands in the way of a plan, and what the user should know.

use crate::pipeline::PipelineError;
use crate::registry::{PassId, RegistryError};
use passhost_lang::names::did_you_mean;
use std::fmt;
use std::ops::Range;

/// A composite pass has at most this many steps, those of its members included.
pub(super) const LONGEST: usize = 100_000;
/// A plan has at most this many steps that were asked for, members of composite passes and Sequentials included.
pub(super) const MOST: usize = 1_000_000;
/// Composite passes are nested at most this deep, in what they require, too.
pub(super) const DEEPEST: usize = 64;

/// Why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A name in the pipeline.
    #[error("in the pipeline: {error}")]
    Name {
        /// What is wrong.
        error: RegistryError,
        /// Place of the item in the pipeline.
        span: Range<usize>,
    },
    /// A name in a list of disabled or required passes, or of instruments.
    #[error("{list} of {level}: {error}")]
    ListedName {
        /// `disabled`, `required` or `instruments`.
        list: &'static str,
        /// Whose list.
        level: String,
        /// What is wrong.
        error: RegistryError,
    },
    /// A word for several passes in such a list, which no pass has as its name.
    #[error(
        "{list} of {level}: no pass `{name}`; name the part of the pipeline that you mean, as in `{form}`, and list that name"
    )]
    ListedForm {
        /// `disabled` or `required`.
        list: &'static str,
        /// Whose list.
        level: String,
        /// The word.
        name: String,
        /// How to give it a name.
        form: &'static str,
    },
    /// Options or form of the pipeline.
    #[error("{error}")]
    Pipeline {
        /// What is wrong.
        error: PipelineError,
        /// Place in the pipeline; `None` where it is not the pipeline that is wrong.
        span: Option<Range<usize>>,
    },
    /// Required and disabled at once.
    #[error("`{name}` is both required and disabled by {level}; choose one")]
    RequiredAndDisabled {
        /// Full name.
        name: String,
        /// Who says both.
        level: String,
    },
    /// A required pass that nobody has.
    #[error("pass `{by}` ({plugin}) requires `{name}`, which no listed plugin contributes{}", did_you_mean(.near))]
    Missing {
        /// Full name of the missing pass.
        name: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// A required pass that does not run with its default options, as it has not all of them.
    #[error(
        "pass `{by}` ({plugin}) requires `{name}` with its default options, but its option `{option}` has no default"
    )]
    NoDefault {
        /// Full name of the required pass.
        name: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// The option.
        option: String,
    },
    /// A required pass of a plugin that is too old or too new.
    #[error("pass `{by}` ({plugin}) requires `{required}`, but plugin `{provider}` has version {found}")]
    Version {
        /// The entry of `required`.
        required: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// Plugin that has the required pass.
        provider: String,
        /// Its version.
        found: String,
    },
    /// A pass that is needed, but disabled.
    #[error(
        "`{name}` is disabled by {level}, but `{by}` ({plugin}) requires it; \
         enable it, or also disable `{asked}`"
    )]
    Disabled {
        /// Full name of the disabled pass.
        name: String,
        /// Who disables it.
        level: String,
        /// Who requires it.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// The pass that was asked for and leads there.
        asked: String,
    },
    /// A member of a composite pass that is needed, but disabled.
    #[error(
        "`{name}` is disabled by {level}, but it is part of `{composite}` ({plugin}), which {by} requires; \
         enable it, or also disable `{asked}`"
    )]
    DisabledMember {
        /// Full name of the disabled pass.
        name: String,
        /// Who disables it.
        level: String,
        /// The composite pass.
        composite: String,
        /// Plugin of that.
        plugin: String,
        /// Who requires it.
        by: String,
        /// The pass that was asked for and leads there.
        asked: String,
    },
    /// Passes that require each other.
    #[error("passes require each other: {}; remove one of these requirements", path.join(" → "))]
    Cycle {
        /// The path, each pass with the plugin that declares what it requires.
        path: Vec<String>,
        /// The pass of it that was registered first, and how many there are: the same wherever a walk came to it.
        key: (Option<PassId>, usize),
    },
    /// Passes that require or contain each other.
    #[error("passes require or contain each other: {}; remove one of these requirements or members", path.join(""))]
    CompositeCycle {
        /// The path, each pass with the plugin that declares it, and what leads to the next one.
        path: Vec<String>,
        /// The pass of it that was registered first, and how many there are: the same wherever a walk came to it.
        key: (Option<PassId>, usize),
    },
    /// A member of a composite pass that nobody has.
    #[error("composite pass `{composite}` ({plugin}) has the member `{name}`, which no listed plugin contributes{}", did_you_mean(.near))]
    UnknownMember {
        /// Full name of the missing pass.
        name: String,
        /// The composite pass.
        composite: String,
        /// Plugin of that pass.
        plugin: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// Options of a member of a composite pass.
    #[error("in composite pass `{composite}` ({plugin}): {error}")]
    Member {
        /// The composite pass.
        composite: String,
        /// Its plugin.
        plugin: String,
        /// What is wrong.
        error: PipelineError,
    },
    /// A composite pass of too many members, with those of its members.
    #[error("composite pass `{composite}` ({plugin}) has more than {LONGEST} steps; make it smaller")]
    TooLong {
        /// The composite pass.
        composite: String,
        /// Its plugin.
        plugin: String,
    },
    /// A composite pass in which others are nested too deeply.
    #[error(
        "composite pass `{composite}` ({plugin}) has composite passes nested more than {DEEPEST} deep in its members and \
         what they require; put some of them side by side"
    )]
    TooDeep {
        /// The composite pass.
        composite: String,
        /// Its plugin.
        plugin: String,
    },
    /// A pipeline of too many steps.
    #[error("the pipeline has more than {MOST} steps; make it shorter")]
    TooManySteps,
    /// Two required passes that declare to undo each other.
    #[error(
        "`{by}` ({plugin}) requires both `{first}` and `{second}`, which declare that they invalidate each other; \
         no order can satisfy it"
    )]
    Conflict {
        /// Who requires both.
        by: String,
        /// Its plugin.
        plugin: String,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
}

/// That of a pipeline that cannot be read.
impl From<PipelineError> for PlanError {
    fn from(error: PipelineError) -> PlanError {
        PlanError::Pipeline { span: error.span(), error }
    }
}

impl PlanError {
    /// The same where another pass was asked for that leads there.
    pub(super) fn asked_for(mut self, name: &str) -> PlanError {
        if let PlanError::Disabled { asked, .. } | PlanError::DisabledMember { asked, .. } = &mut self {
            *asked = name.to_string();
        }
        self
    }

    /// Place in the pipeline, if it is that which is wrong.
    pub fn span(&self) -> Option<Range<usize>> {
        match self {
            PlanError::Name { span, .. } => Some(span.clone()),
            PlanError::Pipeline { span, .. } => span.clone(),
            _ => None,
        }
    }

    /// The message for those who see the pipeline and the place in it.
    pub fn beside_its_text(&self) -> String {
        match self {
            PlanError::Pipeline { error, .. } => error.beside_its_text(),
            other => other.to_string(),
        }
    }

    /// The pass that it is about, and its plugin, as far as there is one.
    pub fn about(&self) -> (Option<&str>, Option<&str>) {
        match self {
            PlanError::Missing { by, plugin, .. }
            | PlanError::NoDefault { by, plugin, .. }
            | PlanError::Version { by, plugin, .. }
            | PlanError::Disabled { by, plugin, .. }
            | PlanError::Conflict { by, plugin, .. } => (Some(by), Some(plugin)),
            PlanError::UnknownMember { composite, plugin, .. }
            | PlanError::Member { composite, plugin, .. }
            | PlanError::DisabledMember { composite, plugin, .. }
            | PlanError::TooLong { composite, plugin }
            | PlanError::TooDeep { composite, plugin } => (Some(composite), Some(plugin)),
            PlanError::RequiredAndDisabled { name, .. } => (Some(name), None),
            _ => (None, None),
        }
    }
}

/// Something that the user should know before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// `--require P`, and no step is P.
    RequiredNotAsked {
        /// Full name.
        name: String,
    },
    /// Asked for, but its opt_level is too high.
    SkippedByLevel {
        /// Full name.
        name: String,
        /// opt_level of the pass.
        level: i32,
        /// opt_level of the context.
        context: i32,
        /// Whether it can be required by name: a Sequential may have none.
        can_be_required: bool,
    },
    /// A pass that `all(…)` cannot stand for.
    LeftOut {
        /// Full name.
        name: String,
        /// The selector.
        selector: String,
        /// The option that it must be given.
        option: String,
    },
}

impl Warning {
    /// Name of the pass, or Sequential, that it is about.
    pub fn pass(&self) -> &str {
        match self {
            Warning::RequiredNotAsked { name }
            | Warning::SkippedByLevel { name, .. }
            | Warning::LeftOut { name, .. } => name,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::RequiredNotAsked { name } => {
                write!(f, "`{name}` is required to run, but is not in the pipeline")
            }
            Warning::SkippedByLevel { name, level, context, can_be_required } => {
                write!(
                    f,
                    "`{name}` is in the pipeline, but is skipped: its opt_level is {level}, and that of the context is {context}; \
                     use --opt-level {level}"
                )?;
                if *can_be_required { write!(f, " or --require {name}") } else { Ok(()) }
            }
            Warning::LeftOut { name, selector, option } => {
                write!(
                    f,
                    "`{selector}` does not select `{name}`, because its option `{option}` must be given; add the pass by name"
                )
            }
        }
    }
}
