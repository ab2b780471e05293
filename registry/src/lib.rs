//! Names of passes, operators, config options and properties with their owners, pipelines as text, the planner, and the facts that hold while a
//! plan runs. Values only: no I/O, no globals.
#![forbid(unsafe_code)]

pub mod config;
pub mod contracts;
pub mod facts;
pub mod instruments;
pub mod pipeline;
pub mod plan;
pub mod registry;

pub use config::ConfigError;
pub use facts::{Doing, Driver, Facts, Frame, Job, Outcome, StepRun};
pub use instruments::{InstrumentId, PlannedInstrument};
pub use pipeline::{Form, Pipeline, PipelineError, Stage};
pub use plan::{Checker, Plan, PlanError, Request, Selection, Skip, Step, Unit, Warning, Why};
pub use registry::{Brought, Named, Owner, OwnerId, PassId, Registry, RegistryError};
