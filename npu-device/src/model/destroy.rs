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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{STEPS, Teardown};
    use crate::capture::{CaptureMode, CondType};
    use crate::codes::Result;
    use crate::context::Context;
    use crate::device::{Config, Device};
    use crate::label::Label;
    use crate::lock::lock;
    use crate::stream::StreamFlags;

    fn context() -> Result<Context> {
        Context::new(&Device::new(Config::default())?)
    }

    /// What each step leaves done, of things that are all there before.
    #[test]
    fn each_step_does_its_own_and_nothing_of_those_after_it() -> Result<()> {
        let context = context()?;
        let persistent = StreamFlags(StreamFlags::PERSISTENT);
        let (model, stream) = (context.build_begin()?, context.stream(persistent)?);
        model.bind(&stream, true)?;
        let label = Label::create(&context, Some(&model))?;
        context.label_list(std::slice::from_ref(&label))?;
        stream.set_label(&label)?;
        let mark = lock(&model.graph.build).labels[0].clone();
        let event = context.event(crate::event::EventFlags(0))?;
        stream.record_event(&event)?;
        model.end_task(&stream)?;
        model.build_end()?;
        let called = Arc::new(AtomicBool::new(false));
        let inside = called.clone();
        model.on_destroy(move || inside.store(true, Ordering::SeqCst));

        let (device, control) = (context.device(), context.control());
        let told = control.core.tail.load(Ordering::SeqCst);
        let mut teardown = Teardown { model: &model, task: None };
        let done = |teardown: &Teardown<'_>| {
            let build = lock(&model.graph.build);
            [
                device.notifies.live() == 0,
                build.rewinds.is_empty(),
                build.labels.is_empty() && mark.target().is_none(),
                build.label_ids.is_none(),
                teardown.task.is_some() || control.core.tail.load(Ordering::SeqCst) != told,
                control.core.tail.load(Ordering::SeqCst) != told && teardown.task.is_none(),
                build.streams.is_empty(),
                called.load(Ordering::SeqCst),
            ]
        };
        // Records of copies are none, so that step shows nothing; the answer is looked for below.
        let after = [1, 2, 2, 3, 4, 5, 6, 6, 7, 8];
        assert_eq!(done(&teardown), [false; 8]);
        for ((name, step), count) in STEPS.iter().zip(after) {
            step(&mut teardown)?;
            let expected: [bool; 8] = std::array::from_fn(|index| index < count);
            assert_eq!(done(&teardown), expected, "{name}");
            let id = model.graph.id();
            match *name {
                // The object is there until the device is told, and gone when it has answered.
                "make the task that ends the model" => assert!(device.models.get(id).is_some()),
                "wait until the device has answered" => assert!(device.models.get(id).is_none()),
                _ => {}
            }
        }
        Ok(())
    }

    #[test]
    fn cells_of_conditions_go_before_the_device_is_told() -> Result<()> {
        let context = context()?;
        let stream = context.stream(StreamFlags(0))?;
        stream.begin_capture(CaptureMode::Relaxed)?;
        let model = stream.capture_info().1.expect("a model under way");
        let handle = model.condition(0, false)?;
        let branches = stream.add_condition(&handle, CondType::If, 1)?;
        let inner = context.stream(StreamFlags(0))?;
        inner.begin_capture_into(&branches[0], CaptureMode::Relaxed)?;
        inner.nop()?;
        inner.end_capture()?;
        let model = stream.end_capture()?;
        let device = context.device();
        let mut teardown = Teardown { model: &model, task: None };
        let there = || (device.conds.live(), device.memories.live(), context.model_count());
        assert_eq!(there(), (1, 1, 1));
        for ((name, step), left) in STEPS.iter().zip([
            (1, 1, 1),
            (0, 0, 1),
            (0, 0, 1),
            (0, 0, 1),
            (0, 0, 1),
            (0, 0, 1),
            (0, 0, 1),
            (0, 0, 1),
            (0, 0, 0),
        ]) {
            step(&mut teardown)?;
            assert_eq!(there(), left, "{name}");
        }
        Ok(())
    }
}
