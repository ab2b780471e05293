//! Names of passes and operators with their owners, pipelines as text, the planner, and the facts that hold while a
//! plan runs. Values only: no I/O, no globals.
#![forbid(unsafe_code)]

pub mod facts;
pub mod instruments;
pub mod pipeline;
pub mod plan;
pub mod registry;

pub use facts::{Driver, Facts, Outcome, StepRun};
pub use instruments::{InstrumentId, PlannedInstrument};
pub use pipeline::{Pipeline, PipelineError, Stage};
pub use plan::{Plan, PlanError, Request, Selection, Skip, Step, Warning};
pub use registry::{Named, Owner, OwnerId, PassId, Registry, RegistryError};
