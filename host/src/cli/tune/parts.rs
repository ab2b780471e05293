//! Splits a pipeline at the pass that schedules.

use crate::report::error::Error;
use registry::{Form, Pipeline, Stage};

/// The pass that schedules PrimFuncs.
const SCHEDULES: &str = "tir.ScheduleForCPU";
/// The pass that lists its schedules.
const LISTS: &str = "tir.ListSchedules";

/// A part of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The passes before the one that schedules, and then the pass that lists schedules.
    Listing,
    /// The pass that schedules, and the passes after it.
    Scheduling,
}

impl Part {
    /// Reduces a pipeline to this part.
    ///
    /// # Errors
    /// If the pipeline does not schedule.
    pub(super) fn of(self, mut pipeline: Pipeline) -> Result<Pipeline, Error> {
        let is_it = |stage: &Stage| stage.name == SCHEDULES && stage.form == Form::Pass;
        let at = pipeline.stages.iter().position(is_it).ok_or_else(|| Error::Request {
            message: format!("the pipeline does not contain `{SCHEDULES}`, whose schedules are tuned"),
            help: "use --pipeline native, or --passes with a list that contains it".to_string(),
        })?;
        let rest = pipeline.stages.split_off(at);
        match self {
            Part::Listing => {
                let lists = rest.into_iter().take(1).map(|stage| Stage { name: LISTS.to_string(), ..stage });
                pipeline.stages.extend(lists);
            }
            Part::Scheduling => pipeline.stages = rest,
        }
        Ok(pipeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_is_split_at_the_pass_that_schedules() {
        let whole = || Pipeline::parse("a.A,tir.ScheduleForCPU{vector_bytes=32},b.B").expect("a pipeline");
        let text = |part: Part| part.of(whole()).expect("a part").to_string();
        assert_eq!(text(Part::Listing), "a.A,tir.ListSchedules{vector_bytes=32}");
        assert_eq!(text(Part::Scheduling), "tir.ScheduleForCPU{vector_bytes=32},b.B");
        let without = Pipeline::parse("a.A,b.B").expect("a pipeline");
        assert!(Part::Listing.of(without).is_err());
    }
}
