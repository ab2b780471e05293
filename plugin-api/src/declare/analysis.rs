//! Analyses of bodies for passes. Bodies are immutable, so each body is analyzed only once.

use crate::declare::pass::Ctx;
use crate::ir::{Body, UseCounts};
use crate::walk::users::Users;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Facts about one body that several passes can use. [`Ctx::analysis`] computes them once per body.
///
/// ```
/// use plugin_api::prelude::*;
/// use plugin_api::declare::analysis::Analysis;
/// use plugin_api::ir::{AttrsId, BodyBuilder, SealError};
///
/// /// How many calls a function has.
/// struct Calls(usize);
///
/// impl Analysis for Calls {
///     const NAME: &'static str = "calls";
///     fn compute(body: &Body) -> Calls {
///         Calls(body.values().filter(|value| value.as_call().is_some()).count())
///     }
/// }
///
/// fn look(body: &Body, ctx: &Ctx) -> Result<Body, PassError> {
///     ctx.statistic("calls seen", ctx.analysis::<Calls>(body).0);
///     Ok(body.clone())
/// }
/// # let mut b = BodyBuilder::new();
/// # b.begin_function(0, AttrsId::NONE, None);
/// # let ty = b.ty(&Type::tensor([2, 3], DType::F32));
/// # let x = b.param("x", ty);
/// # b.end_function(x, ty);
/// # assert!(look(&b.finish()?, &Ctx::detached()).is_ok());
/// # Ok::<(), SealError>(())
/// ```
pub trait Analysis: Send + Sync + 'static {
    /// Name of the analysis in `--statistics`.
    const NAME: &'static str;

    /// Analyzes a body.
    fn compute(body: &Body) -> Self;
}

impl Analysis for Users {
    const NAME: &'static str = "users";

    fn compute(body: &Body) -> Users {
        body.users()
    }
}

impl Analysis for UseCounts {
    const NAME: &'static str = "use counts";

    fn compute(body: &Body) -> UseCounts {
        body.use_counts()
    }
}

/// Analyses of the last run. As with the service table, each copy of this crate has its own cache, because plugins
/// cannot exchange types.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

struct Kept {
    run: u64,
    /// Facts by the address of the body, which is not reused while the entry holds a handle.
    found: HashMap<(usize, TypeId), Found>,
    /// Number of entries from which entries with otherwise unused bodies are removed.
    full: usize,
}

struct Found {
    body: Body,
    facts: Arc<dyn Any + Send + Sync>,
}

/// Minimum number of entries for a scan.
const FEW: usize = 8;

impl Kept {
    fn new(run: u64) -> Kept {
        Kept { run, found: HashMap::new(), full: FEW }
    }

    fn get<A: Analysis>(&self, body: &Body) -> Option<Arc<A>> {
        let facts = Arc::clone(&self.found.get(&(body.addr(), TypeId::of::<A>()))?.facts);
        facts.downcast().ok()
    }

    fn put<A: Analysis>(&mut self, body: &Body, facts: &Arc<A>) {
        if self.found.len() >= self.full {
            self.forget_unused();
        }
        let facts: Arc<dyn Any + Send + Sync> = Arc::<A>::clone(facts);
        self.found.insert((body.addr(), TypeId::of::<A>()), Found { body: body.clone(), facts });
    }

    /// Removes entries whose body is otherwise unused. Scans all entries, and therefore runs each time their number
    /// has doubled.
    fn forget_unused(&mut self) {
        let mut handles: HashMap<usize, u64> = HashMap::new();
        self.found.keys().for_each(|(addr, _)| *handles.entry(*addr).or_default() += 1);
        self.found.retain(|(addr, _), found| found.body.owners() > handles.get(addr).copied().unwrap_or(0));
        self.full = FEW.max(2 * self.found.len());
    }
}

impl Ctx {
    /// Returns facts about a body, usually computed once per run. They are recomputed in a new run, after a pass ran
    /// a nested pipeline, and after passes replaced several times the size of the module. They are kept until the
    /// next run requests facts. `--statistics` shows how often they were computed and reused.
    pub fn analysis<A: Analysis>(&self, body: &Body) -> Arc<A> {
        let Some(run) = self.run() else { return Arc::new(A::compute(body)) };
        let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept().as_ref().filter(|kept| kept.run == run).and_then(|kept| kept.get::<A>(body));
        if let Some(known) = known {
            self.statistic(&format!("analysis `{}`: reused", A::NAME), 1);
            return known;
        }
        self.statistic(&format!("analysis `{}`: computed", A::NAME), 1);
        let facts = Arc::new(A::compute(body));
        let mut kept = kept();
        // Run numbers increase. The facts of an older run that is still active are not kept.
        match &mut *kept {
            Some(kept) if kept.run > run => {}
            Some(kept) if kept.run == run => kept.put(body, &facts),
            kept => kept.insert(Kept::new(run)).put(body, &facts),
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{AttrsId, BodyBuilder, DType, Type};

    fn body(param: &str) -> Body {
        let mut b = BodyBuilder::new();
        b.begin_function(0, AttrsId::NONE, None);
        let ty = b.ty(&Type::tensor([2], DType::F32));
        let x = b.param(param, ty);
        b.end_function(x, ty);
        b.finish().expect("a body")
    }

    #[test]
    fn facts_are_kept_as_long_as_something_uses_the_body() {
        let mut kept = Kept::new(1);
        let used = body("used");
        let facts = Arc::new(Users::compute(&used));
        kept.put(&used, &facts);
        for i in 0..10 * FEW {
            let body = body(&format!("x{i}"));
            kept.put(&body, &Arc::new(Users::compute(&body)));
            kept.put(&body, &Arc::new(UseCounts::compute(&body)));
        }
        assert!(kept.get::<Users>(&used).is_some_and(|found| Arc::ptr_eq(&found, &facts)));
        assert!(kept.get::<UseCounts>(&used).is_none());
        assert!(kept.found.len() <= 2 * FEW, "{}", kept.found.len());
    }
}
