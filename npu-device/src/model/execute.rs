//! The end mark, executing, aborting: the host's side.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::codes::{
    FEATURE_NOT_SUPPORT, INTERNAL_ERROR, MODEL_ABORT_NORMAL, MODEL_EXECUTE, Result,
    STREAM_SYNC_TIMEOUT, refuse,
};
use crate::lock::lock;
use crate::model::{Model, bind::not_ready};
use crate::sqe::{Sqe, kind, task};
use crate::stream::Stream;

/// How long an abort waits for what it stops.
const ABORT_WAIT: Duration = Duration::from_millis(100);

impl Model {
    /// Puts the end mark into a stream, one of this model's: when it runs, the run is over.
    ///
    /// # Errors
    /// 507000 when there is one already, or the stream is not of this model; 207009 when no notify
    /// is left; 107026 for a model that comes of a capture.
    pub fn end_task(&self, stream: &Stream) -> Result<u16> {
        self.refuse_captured()?;
        let device = self.context.device();
        if !stream.core.graph().is_some_and(|graph| Arc::ptr_eq(&graph, &self.graph)) {
            let what = format!("stream {} is not of model {}", stream.id(), self.id());
            return refuse(INTERNAL_ERROR, what);
        }
        if lock(&self.graph.build).end.is_some() {
            return refuse(INTERNAL_ERROR, format!("model {} has an end mark already", self.id()));
        }
        let bit = device.new_bit()?;
        let sqe = self.graph.name_in(bit.entry(kind::NOTIFY_RECORD, 0));
        let placed = stream.core.submit(device, sqe).inspect_err(|_| {
            device.drop_bit(&bit);
        })?;
        lock(&self.graph.build).end = Some(bit);
        Ok(placed.task)
    }

    /// Runs it and waits for its end; `None` is forever. The context's default stream is used.
    ///
    /// # Errors
    /// 507011 before [`Model::build_end`], or when a stream was unbound since; 507046 after the
    /// timeout, and the run was aborted; else the code that it failed with.
    pub fn execute(&self, timeout: Option<Duration>) -> Result<()> {
        let stream = self.context.default_stream();
        self.start(&stream)?;
        let outcome = stream.synchronize(timeout);
        if outcome.as_ref().is_err_and(|error| error.code() == STREAM_SYNC_TIMEOUT) {
            self.stop();
            let deadline = Instant::now() + ABORT_WAIT;
            stream.core.wait_until(Some(deadline), || !stream.core.has_work());
            // That this run was aborted is what the timeout says.
            stream.core.unstick();
        }
        outcome
    }

    /// Runs it in the order of a stream's tasks. Whoever synchronises that stream gets its code.
    ///
    /// # Errors
    /// 507011 before [`Model::build_end`]; 107026 while it is captured, 107000 for a branch of a
    /// condition; 107030 when the stream is captured; 107003 for a stream of another context;
    /// 107000 for a persistent one; 207000 for a model all of whose streams are the device's CPU's.
    pub fn execute_async(&self, stream: &Stream) -> Result<()> {
        if self.is_cpu() {
            let what = format!("model {} is the device's CPU's: execute it and wait", self.id());
            return refuse(FEATURE_NOT_SUPPORT, what);
        }
        self.start(stream)
    }

    fn start(&self, stream: &Stream) -> Result<()> {
        stream.check_context(&self.context)?;
        self.check_own()?;
        if stream.core.is_persistent() {
            return refuse(crate::codes::PARAM_INVALID, "a model runs from an ordinary stream");
        }
        let end = {
            let build = lock(&self.graph.build);
            let end = build.end.clone();
            let end = end.ok_or_else(|| not_ready(MODEL_EXECUTE, self, "has no end mark"))?;
            if !build.complete {
                return Err(not_ready(MODEL_EXECUTE, self, "is not complete"));
            }
            if lock(&self.graph.exec).loaded.is_none() {
                return Err(not_ready(MODEL_EXECUTE, self, "has lost a stream"));
            }
            end
        };
        let streams = self.context.device().streams.live();
        self.graph.expect_run(streams);
        end.expect_wait(streams);
        // Both or none: a run whose end nobody takes would never be over.
        let mut begin = self.graph.name_in(Sqe::place_holder(task::MODEL_EXECUTE));
        let end = self.graph.name_in(end.entry(kind::NOTIFY_WAIT, 0));
        self.graph.number_externals(&mut begin, streams);
        let pushed = stream.core.push(self.context.device(), [begin, end]);
        pushed.map(drop).inspect_err(|_| self.graph.forget_externals(&begin))
    }

    /// Whether all its streams are the device's CPU's.
    pub(super) fn is_cpu(&self) -> bool {
        let build = lock(&self.graph.build);
        !build.streams.is_empty() && build.streams.iter().all(|core| core.is_cpu())
    }

    /// Stops its run: each stream ends after the task it is at. Whoever waits for the run gets
    /// 507023. The model can run again.
    ///
    /// # Errors
    /// 207000 for a model that comes of a capture.
    pub fn abort(&self) -> Result<()> {
        if self.graph.capture.is_some() {
            return refuse(FEATURE_NOT_SUPPORT, "a model that comes of a capture is not aborted");
        }
        self.stop();
        Ok(())
    }

    fn stop(&self) {
        self.graph.fail(self.context.device(), MODEL_ABORT_NORMAL);
        self.graph.wait_idle(ABORT_WAIT);
    }

    /// Whether a stream of it is active: from the start of a run until all have left it, which is a
    /// moment after the end mark, and so after whoever waits for the run may have gone on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.graph.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use crate::codes::Result;
    use crate::context::Context;
    use crate::device::{Config, Device};
    use crate::lock::lock;
    use crate::stream::StreamFlags;

    #[test]
    fn v7_9_the_end_notify_is_clean_after_each_run() -> Result<()> {
        for auto_split in [false, true] {
            let config = Config { auto_split, ..Config::default() };
            let context = Context::new(&Device::new(config)?)?;
            let model = context.build_begin()?;
            let stream = context.stream(StreamFlags(StreamFlags::PERSISTENT))?;
            model.bind(&stream, true)?;
            model.end_task(&stream)?;
            model.build_end()?;
            let end = lock(&model.graph.build).end.clone().expect("an end mark");
            assert!(!end.is_set());
            for run in 1..=3 {
                model.execute(None)?;
                assert!(!end.is_set(), "run {run}");
            }
            model.destroy()?;
        }
        Ok(())
    }
}
