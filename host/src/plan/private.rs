//! Memory of models outside the partitions: it belongs to the process of their device.
//!
//! Each instance has working memory of its own, its program (weights included) as a memory file of
//! its own, and a place for every output that nobody reads.

use crate::check::CheckedFlow;
use crate::error::{PlanError, Problem};

use super::text::bytes_text;
use super::{DeployPlan, ExecutorPlan, Limits, Work};

impl ExecutorPlan {
    /// Bytes of a model outside its partition, by what they are; none for others.
    #[must_use]
    pub fn private(&self) -> Vec<(&'static str, u64)> {
        let Work::Model(model) = &self.work else { return Vec::new() };
        let unread = self.outputs.iter().filter(|output| output.destinations.is_empty());
        let unread = unread.fold(0, |sum: u64, output| sum.saturating_add(output.max_bytes));
        let parts = [
            ("working memory", model.arena_bytes),
            ("program and weights", model.program_bytes),
            ("outputs that nobody reads", unread),
        ];
        parts.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
    }

    fn private_bytes(&self) -> u64 {
        self.private().iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// The sum in words: `256 MiB working memory + 20 MiB program and weights`.
    pub(super) fn private_text(&self) -> String {
        let parts = self.private();
        let parts = parts.iter().map(|(what, bytes)| format!("{} {what}", bytes_text(*bytes)));
        parts.collect::<Vec<_>>().join(" + ")
    }
}

impl DeployPlan {
    /// Bytes of all models outside the partitions.
    #[must_use]
    pub fn private_bytes(&self) -> u64 {
        self.executors.iter().fold(0, |sum, one| sum.saturating_add(one.private_bytes()))
    }
}

/// Refuses a plan whose models need more than the partitions leave of the machine's memory.
pub(super) fn check(
    flow: &CheckedFlow,
    plan: &DeployPlan,
    limits: &Limits,
) -> Result<(), PlanError> {
    let (shared, private) = (plan.bytes(), plan.private_bytes());
    let Some(machine) = limits.machine.filter(|all| private > all.saturating_sub(shared)) else {
        return Ok(());
    };
    let Some(largest) = plan.executors.iter().max_by_key(|one| one.private_bytes()) else {
        return Ok(());
    };
    let Work::Model(model) = &largest.work else { return Ok(()) };
    let path = model.path.display();
    let found = format!(
        "{} for all models and {} of partitions; most for `{path}`: {}",
        bytes_text(private),
        bytes_text(shared),
        largest.private_text()
    );
    Err(PlanError::Total(Problem::new(
        flow.graph().place().node(&largest.label).port("`model`"),
        found,
        format!(
            "at most {} (the memory of this machine or control group) in all",
            bytes_text(machine)
        ),
        "bind the model's inputs to smaller shapes (`inputs_tensor_desc`) or lower `instances`; \
         `dflow inspect` shows which tasks need it",
    )))
}
