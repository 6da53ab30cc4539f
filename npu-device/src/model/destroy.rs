//! The end of a model, in ten steps.

use std::sync::Arc;

use crate::capture::Cond;
use crate::codes::{MODEL_RUNNING, PARAM_INVALID, Result, refuse};
use crate::device::Inner;
use crate::lock::lock;
use crate::model::{Graph, Model};
use crate::sqe::{Operation, Sqe};

/// A model on its way out.
struct Teardown<'a> {
    model: &'a Model,
    /// What tells the device.
    task: Option<Sqe>,
}

/// One step, by what it does and how.
type Step = (&'static str, fn(&mut Teardown<'_>) -> Result<()>);

/// In this order: first what tasks of the model name, then the device is told and answers, and only
/// then the object leaves its context.
const STEPS: [Step; 10] = [
    ("release the end notify", release_end),
    ("release the device's memory and records of arguments", |t| {
        {
            let mut build = lock(&t.model.graph.build);
            (build.rewinds, build.edits) = (Vec::new(), Vec::new());
        }
        let conds = t.model.graph.take_conds();
        conds.iter().try_for_each(|cond| cond.release(t.model.context.device()))
    }),
    // Copies name memory by address; nothing is recorded for them.
    ("release records of copies", |_| Ok(())),
    ("detach labels", |t| {
        let labels = std::mem::take(&mut lock(&t.model.graph.build).labels);
        labels.iter().for_each(|label| label.detach());
        Ok(())
    }),
    ("release the allocator of labels", |t| {
        lock(&t.model.graph.build).label_ids = None;
        Ok(())
    }),
    ("make the task that ends the model", |t| {
        t.task = Some(t.model.maintenance(Operation::ModelDestroy, None));
        Ok(())
    }),
    ("submit it", |t| {
        let control = t.model.context.control();
        t.task.take().map_or(Ok(()), |task| control.put(task).map(drop))
    }),
    ("wait until the device has answered", |t| t.model.context.control().synchronize(None)),
    ("leave the context", leave_context),
    ("call back", |t| {
        let callbacks = std::mem::take(&mut lock(&t.model.graph.build).callbacks);
        callbacks.into_iter().for_each(|(_, callback)| (callback.0)());
        Ok(())
    }),
];

fn release_end(t: &mut Teardown<'_>) -> Result<()> {
    let end = lock(&t.model.graph.build).end.take();
    lock(&t.model.graph.exec).loaded = None;
    // That of a branch is its condition's.
    if let Some(end) = end.filter(|_| !t.model.graph.is_branch()) {
        t.model.context.device().drop_bit(&end);
    }
    Ok(())
}

/// Streams that are still bound go back to the context.
fn leave_context(t: &mut Teardown<'_>) -> Result<()> {
    let model = t.model;
    model.context.forget_model(&model.graph);
    loop {
        let build = lock(&model.graph.build);
        let masters = build.streams.iter().find(|core| core.sq == core.shown).cloned();
        drop(build);
        let Some(core) = masters else { return Ok(()) };
        model.unbind_core(&core)?;
        if model.graph.capture.is_some() {
            model.context.device().streams.remove_named(core.word());
        }
    }
}

impl Graph {
    /// Its context is gone, and it was not destroyed: nothing of it stays on the device.
    pub(crate) fn vanish(&self, device: &Inner) {
        device.models.remove(self.id());
        let mut build = lock(&self.build);
        // Those of captures, and slaves; the others are the context's.
        build.streams.drain(..).for_each(|core| drop(device.streams.remove_named(core.word())));
        build.heads = Vec::new();
        if let Some(end) = build.end.take().filter(|_| !self.is_branch()) {
            device.drop_bit(&end);
        }
    }

    fn take_conds(&self) -> Vec<Arc<Cond>> {
        let capture = self.capture.as_ref().map(lock);
        capture.map(|mut capture| capture.take_conds()).unwrap_or_default()
    }

    fn is_branch(&self) -> bool {
        self.capture.as_ref().is_some_and(|capture| lock(capture).is_sub())
    }
}

impl Model {
    /// Ends it; its streams are free again and their tasks gone.
    ///
    /// # Errors
    /// 107000 when it was destroyed before, unless it comes of a capture, and for a branch of a
    /// condition, which ends with its model; 107026 while it is captured; 107037 when its run does
    /// not end in the time that the device was configured with, and it is as it was.
    pub fn destroy(&self) -> Result<()> {
        if self.graph.capture.is_some() {
            if lock(&self.graph.build).destroyed {
                return Ok(());
            }
            self.check_own()?;
        }
        if !self.graph.wait_idle(self.context.device().config.patience) {
            return refuse(MODEL_RUNNING, format!("model {} is running", self.id()));
        }
        {
            let mut build = lock(&self.graph.build);
            if std::mem::replace(&mut build.destroyed, true) {
                let what = format!("model {} was destroyed before", self.id());
                return refuse(PARAM_INVALID, what);
            }
        }
        self.run_steps()
    }

    /// The same without asking, for what came to nothing and for branches.
    pub(crate) fn teardown(&self) -> Result<()> {
        if std::mem::replace(&mut lock(&self.graph.build).destroyed, true) {
            return Ok(());
        }
        self.graph.wait_idle(self.context.device().config.patience);
        self.run_steps()
    }

    fn run_steps(&self) -> Result<()> {
        let mut teardown = Teardown { model: self, task: None };
        STEPS.iter().try_for_each(|(_, step)| step(&mut teardown))
    }
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn what_tasks_name_goes_before_the_device_is_told_and_the_object_last() {
        let at = |what: &str| STEPS.iter().position(|(name, _)| name.starts_with(what)).unwrap();
        let order = ["release the end", "release the device", "release records of copies"];
        let more = ["detach", "release the allocator", "make", "submit", "wait", "leave", "call"];
        let order: Vec<usize> = order.iter().chain(&more).map(|what| at(what)).collect();
        assert_eq!(order, (0..10).collect::<Vec<usize>>());
    }
}
