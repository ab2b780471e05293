//! The registry of passes, operators, config options and properties with their owners; pipelines as text; the
//! planner; and the driver, which makes the decisions during a run. Values only: no I/O, no globals.
#![forbid(unsafe_code)]

pub mod driver;
pub mod pipeline;
pub mod plan;
pub mod registry;

pub use driver::{Driver, Facts, Job, Outcome, Resume, Round, StepRun, Todo};
pub use pipeline::{Form, Named, Pipeline, PipelineError, Stage};
pub use plan::instruments_asked::PlannedInstrument;
pub use plan::{Checker, Compat, Plan, PlanError, Request, Selection, Skip, Step, Unit, Warning, Why};
pub use registry::config::{self, ConfigError};
pub use registry::formats::{Direction, Format};
pub use registry::instruments::InstrumentId;
pub use registry::{Brought, Owner, OwnerId, PassId, Registry, RegistryError};
