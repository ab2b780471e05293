//! Errors that prevent a plan, and warnings about a plan.

use crate::pipeline::PipelineError;
use crate::registry::{PassId, RegistryError};
use passhost_lang::names::did_you_mean;
use std::fmt;
use std::ops::Range;

/// Maximum number of steps of a composite pass, including those of its members.
pub(super) const LONGEST: usize = 100_000;
/// Maximum number of requested steps in a plan, including members of composite passes and Sequentials.
pub(super) const MOST: usize = 1_000_000;
/// Maximum nesting of composite passes, including their requirements.
pub(super) const DEEPEST: usize = 64;

/// The reason why a request cannot be planned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A name in the pipeline is wrong.
    #[error("in the pipeline: {error}")]
    Name {
        /// The error.
        error: RegistryError,
        /// Position of the item in the pipeline.
        span: Range<usize>,
    },
    /// A name in a list of disabled or required passes, or of instruments, is wrong.
    #[error("{list} of {level}: {error}")]
    ListedName {
        /// `disabled`, `required` or `instruments`.
        list: &'static str,
        /// The level of the list.
        level: String,
        /// The error.
        error: RegistryError,
    },
    /// A list contains a word that stands for several passes and is not a pass name.
    #[error(
        "{list} of {level}: unknown pass `{name}`; to list a part of the pipeline, name that part, as in `{form}`, and list its name"
    )]
    ListedForm {
        /// `disabled` or `required`.
        list: &'static str,
        /// The level of the list.
        level: String,
        /// The word.
        name: String,
        /// The syntax that gives the group a name.
        form: &'static str,
    },
    /// The pipeline has wrong options or syntax.
    #[error("{error}")]
    Pipeline {
        /// The error.
        error: PipelineError,
        /// Position in the pipeline; `None` if the error is elsewhere.
        span: Option<Range<usize>>,
    },
    /// A pass is both required and disabled.
    #[error("`{name}` is both required and disabled by {level}; choose one")]
    RequiredAndDisabled {
        /// Full name.
        name: String,
        /// The level of both lists.
        level: String,
    },
    /// A required pass does not exist.
    #[error("pass `{by}` ({plugin}) requires `{name}`, which no listed plugin contributes{}", did_you_mean(.near))]
    Missing {
        /// Full name of the missing pass.
        name: String,
        /// The requiring pass.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// A required pass cannot run with default options, because an option lacks a default.
    #[error(
        "pass `{by}` ({plugin}) requires `{name}` with its default options, but its option `{option}` lacks a default"
    )]
    NoDefault {
        /// Full name of the required pass.
        name: String,
        /// The requiring pass.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// The option.
        option: String,
    },
    /// The plugin of a required pass is too old or too new.
    #[error("pass `{by}` ({plugin}) requires `{required}`, but plugin `{provider}` has version {found}")]
    Version {
        /// The entry of `required`.
        required: String,
        /// The requiring pass.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// Plugin of the required pass.
        provider: String,
        /// Version of that plugin.
        found: String,
    },
    /// A required pass is disabled.
    #[error(
        "`{name}` is disabled by {level}, but `{by}` ({plugin}) requires it; \
         enable it, or also disable `{asked}`"
    )]
    Disabled {
        /// Full name of the disabled pass.
        name: String,
        /// The level that disables it.
        level: String,
        /// The requiring pass.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// The requested pass that leads to the error.
        asked: String,
    },
    /// A member of a required composite pass is disabled.
    #[error(
        "`{name}` is disabled by {level}, but it is part of `{composite}` ({plugin}), which {by} requires; \
         enable it, or also disable `{asked}`"
    )]
    DisabledMember {
        /// Full name of the disabled pass.
        name: String,
        /// The level that disables it.
        level: String,
        /// The composite pass.
        composite: String,
        /// Plugin of the composite pass.
        plugin: String,
        /// The requiring pass.
        by: String,
        /// The requested pass that leads to the error.
        asked: String,
    },
    /// Passes require each other in a cycle.
    #[error("passes require each other: {}; remove one of these requirements", path.join(" → "))]
    Cycle {
        /// The path, each pass with the plugin that declares its requirements.
        path: Vec<String>,
        /// The first registered pass on the path, and the number of passes; independent of the start of the walk.
        key: (Option<PassId>, usize),
    },
    /// Passes require or contain each other in a cycle.
    #[error("passes require or contain each other: {}; remove one of these requirements or members", path.join(""))]
    CompositeCycle {
        /// The path, each pass with the plugin that declares it, and the relation to the next pass.
        path: Vec<String>,
        /// The first registered pass on the path, and the number of passes; independent of the start of the walk.
        key: (Option<PassId>, usize),
    },
    /// A member of a composite pass does not exist.
    #[error("composite pass `{composite}` ({plugin}) has the member `{name}`, which no listed plugin contributes{}", did_you_mean(.near))]
    UnknownMember {
        /// Full name of the missing pass.
        name: String,
        /// The composite pass.
        composite: String,
        /// Plugin of the composite pass.
        plugin: String,
        /// Nearest names.
        near: Vec<String>,
    },
    /// A member of a composite pass has wrong options.
    #[error("in composite pass `{composite}` ({plugin}): {error}")]
    Member {
        /// The composite pass.
        composite: String,
        /// Plugin of the composite pass.
        plugin: String,
        /// The error.
        error: PipelineError,
    },
    /// A composite pass has too many members, including nested members.
    #[error("composite pass `{composite}` ({plugin}) has more than {LONGEST} steps; make it smaller")]
    TooLong {
        /// The composite pass.
        composite: String,
        /// Plugin of the composite pass.
        plugin: String,
    },
    /// Composite passes are nested too deeply.
    #[error(
        "composite pass `{composite}` ({plugin}) has composite passes nested more than {DEEPEST} deep in its members and requirements; put some \
         of them side by side"
    )]
    TooDeep {
        /// The composite pass.
        composite: String,
        /// Plugin of the composite pass.
        plugin: String,
    },
    /// A pipeline has too many steps.
    #[error("the pipeline has more than {MOST} steps; make it shorter")]
    TooManySteps,
    /// Two passes that are required together invalidate each other.
    #[error(
        "`{by}` ({plugin}) requires both `{first}` and `{second}`, which invalidate each other, so no order satisfies both"
    )]
    Conflict {
        /// The pass that requires both.
        by: String,
        /// Plugin of that pass.
        plugin: String,
        /// One of the two passes.
        first: String,
        /// The other pass.
        second: String,
    },
}

/// Converts a parse error of a pipeline.
impl From<PipelineError> for PlanError {
    fn from(error: PipelineError) -> PlanError {
        PlanError::Pipeline { span: error.span(), error }
    }
}

impl PlanError {
    /// Replaces the requested pass in the error.
    pub(super) fn asked_for(mut self, name: &str) -> PlanError {
        if let PlanError::Disabled { asked, .. } | PlanError::DisabledMember { asked, .. } = &mut self {
            *asked = name.to_string();
        }
        self
    }

    /// Returns the position of the error in the pipeline, if any.
    pub fn span(&self) -> Option<Range<usize>> {
        match self {
            PlanError::Name { span, .. } => Some(span.clone()),
            PlanError::Pipeline { span, .. } => span.clone(),
            _ => None,
        }
    }

    /// Returns the message for display next to the pipeline and the position.
    pub fn beside_its_text(&self) -> String {
        match self {
            PlanError::Pipeline { error, .. } => error.beside_its_text(),
            other => other.to_string(),
        }
    }

    /// Returns the affected pass and its plugin, if any.
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

/// A warning about a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// `--require P` was given, but `P` is not a step.
    RequiredNotAsked {
        /// Full name.
        name: String,
    },
    /// A requested step is skipped because of its opt_level.
    SkippedByLevel {
        /// Full name.
        name: String,
        /// opt_level of the pass.
        level: i32,
        /// opt_level of the context.
        context: i32,
        /// True if the step can be required by name; some Sequentials are unnamed.
        can_be_required: bool,
    },
    /// A pass cannot be selected by `all(…)`.
    LeftOut {
        /// Full name of the pass.
        name: String,
        /// The selector.
        selector: String,
        /// The option that `all(…)` cannot supply.
        option: String,
    },
}

impl Warning {
    /// Returns the name of the pass or Sequential.
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
                    "`{name}` is skipped because its opt_level, {level}, is higher than the opt_level of the context, {context}; use --opt-level {level}"
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
