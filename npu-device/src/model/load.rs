//! Completing a model.

use std::sync::Arc;

use crate::codes::{MODEL_EXECUTE, PARAM_INVALID, Result, STREAM_MODEL};
use crate::lock::lock;
use crate::model::bind::not_ready;
use crate::model::exec::Loaded;
use crate::model::{Model, split};
use crate::sqe::Operation;

impl Model {
    /// Completes it; from here on nothing can be added, and it can run.
    ///
    /// # Errors
    /// 107026 for a model that comes of a capture; 107005 without streams; 507011 without an end
    /// mark; 107000 when it is complete already.
    pub fn build_end(&self) -> Result<()> {
        self.refuse_captured()?;
        {
            let build = lock(&self.graph.build);
            if build.complete || build.destroyed {
                return Err(not_ready(PARAM_INVALID, self, "is complete already"));
            }
            if build.streams.is_empty() {
                return Err(not_ready(STREAM_MODEL, self, "has no streams"));
            }
            if build.end.is_none() {
                return Err(not_ready(MODEL_EXECUTE, self, "has no end mark"));
            }
        }
        self.load()
    }

    /// Gives the streams their queues, tells the device, and makes the model ready to run.
    pub(crate) fn load(&self) -> Result<()> {
        let device = self.context.device();
        let streams = lock(&self.graph.build).streams.clone();
        if device.config.auto_split || self.graph.capture.is_some() {
            split::build_queues(streams.iter())?;
            for core in streams.iter().filter(|core| !core.is_cpu()) {
                let head = lock(&self.graph.build).heads.iter().any(|own| Arc::ptr_eq(own, core));
                self.maintain(Operation::StreamAdd, Some((core, head)))?;
            }
        }
        split::pack_cpu(streams.iter());
        self.maintain(Operation::ModelPreProc, None)?;
        let capture = self.graph.capture.as_ref().map(lock);
        let resets = capture.as_ref().map(|capture| capture.resets()).unwrap_or_default();
        drop(capture);
        let mut build = lock(&self.graph.build);
        build.complete = true;
        for core in &build.streams {
            lock(&core.submit).complete = true;
        }
        let Some(end) = build.end.clone() else { return Ok(()) };
        lock(&self.graph.exec).loaded = Some(Arc::new(Loaded {
            heads: build.heads.iter().cloned().collect(),
            streams: build.streams.iter().cloned().collect(),
            end,
            rewinds: build.rewinds.iter().cloned().collect(),
            externals: build.externals.iter().cloned().collect(),
            resets,
        }));
        Ok(())
    }
}
