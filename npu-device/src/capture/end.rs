//! Ending a capture: the checks, in their order, and the model that comes of it.

use std::sync::Arc;
use std::thread;

use crate::capture::{Active, Capture, CaptureMode, Stage};
use crate::codes::{
    CAPTURE_UNMATCHED, CAPTURE_WRONG_THREAD, Error, INTERNAL_ERROR, Result,
    STREAM_CAPTURE_INVALIDATED, STREAM_NOT_CAPTURED, STREAM_UNJOINED, SUB_GRAPH_IS_CAPTURING,
    refuse,
};
use crate::lock::lock;
use crate::model::{Graph, Model};
use crate::notify::Bit;
use crate::sqe::kind;
use crate::stream::{Core, Stream};

impl Stream {
    /// Ends the capture that this stream began; the model, ready to run.
    ///
    /// # Errors
    /// In this order: 107029 when it is not captured; 107036 when another stream began the capture;
    /// 107038 when another thread did, unless the mode was `Relaxed`. These leave the capture as it
    /// is. Then, with nothing left of the model: 507903 when it was invalidated; 107045 when a
    /// branch of a condition is not ended; 107025 when a stream that joined was not joined back.
    pub fn end_capture(&self) -> Result<Model> {
        let Some(graph) = self.capture() else {
            return refuse(STREAM_NOT_CAPTURED, format!("stream {} is not captured", self.id()));
        };
        let Some(capture) = &graph.capture else {
            return refuse(INTERNAL_ERROR, "the model is no capture model");
        };
        let model = Model { graph: graph.clone(), context: self.context.clone() };
        let mut captures = self.context.captures();
        let outcome = {
            let capture = lock(capture);
            let first = capture.members.first();
            if !first.is_some_and(|member| Arc::ptr_eq(&member.user, &self.core)) {
                let what = format!("stream {} joined the capture, another one began it", self.id());
                return refuse(CAPTURE_UNMATCHED, what);
            }
            if capture.mode != CaptureMode::Relaxed && capture.thread != thread::current().id() {
                let own = captures.iter_mut().find(|active| active.serial == graph.serial);
                own.into_iter().for_each(|active| active.unwound = true);
                return refuse(CAPTURE_WRONG_THREAD, "another thread began the capture");
            }
            capture.check_end(self.id())
        };
        let is_sub = lock(capture).is_sub();
        leave(&graph, &mut captures);
        drop(captures);
        let outcome = outcome.and_then(|()| model.complete_capture());
        let mut capture = lock(capture);
        if let Err(error) = outcome {
            capture.stage = Stage::Fault;
            drop(capture);
            if !is_sub {
                model.teardown()?;
            }
            return Err(error);
        }
        capture.stage = Stage::Ready;
        drop(capture);
        Ok(model)
    }
}

/// All its streams, and those of its branches, are captured no longer.
fn leave(graph: &Arc<Graph>, captures: &mut Vec<Active>) {
    captures.retain(|active| active.serial != graph.serial);
    let Some(capture) = &graph.capture else { return };
    let capture = lock(capture);
    for member in &capture.members {
        lock(&member.user.submit).capture = None;
    }
    let branches = capture.conds.iter().flat_map(|cond| cond.branches());
    for branch in branches.collect::<Vec<_>>() {
        leave(&branch, captures);
    }
}

/// The captures that streams are in: nothing comes of them, and they keep nothing alive.
pub(crate) fn forget_captures(streams: &[Arc<Core>], captures: &mut Vec<Active>) {
    for core in streams {
        let Some(graph) = lock(&core.submit).capture.take() else { continue };
        graph.invalidate();
        leave(&graph, captures);
        if let Some(capture) = &graph.capture {
            lock(capture).members = Vec::new();
        }
    }
}

impl Capture {
    fn check_end(&self, stream: u32) -> Result<()> {
        if self.stage != Stage::Active {
            let what = format!("the capture of stream {stream} was invalidated");
            return refuse(STREAM_CAPTURE_INVALIDATED, what);
        }
        let mut branches = self.conds.iter().flat_map(|cond| cond.branches());
        if let Some(open) = branches.find(|branch| !branch.is_captured()) {
            let what = format!("branch {} of a condition is not ended", open.id());
            return refuse(SUB_GRAPH_IS_CAPTURING, what);
        }
        let seen = self.members.first().map(|first| &first.known);
        let known = |index: usize| seen.and_then(|seen| seen.get(index)).copied().unwrap_or(0);
        let unjoined = |(index, member): (usize, &super::Member)| {
            (member.known[index] > known(index)).then(|| member.user.shown)
        };
        if let Some(id) = self.members.iter().enumerate().find_map(unjoined) {
            let what = format!("stream {id} joined the capture of stream {stream} and not back");
            return refuse(STREAM_UNJOINED, what);
        }
        Ok(())
    }
}

impl Graph {
    /// Whether its capture has ended well.
    pub(crate) fn is_captured(&self) -> bool {
        self.capture.as_ref().is_some_and(|capture| lock(capture).stage == Stage::Ready)
    }
}

impl Model {
    /// The end mark, behind everything in the first stream, and the queues.
    fn complete_capture(&self) -> Result<()> {
        let device = self.context.device();
        let gone = || Error::new(INTERNAL_ERROR, "the capture has no stream");
        let capture = self.graph.capture.as_ref().map(lock).ok_or_else(gone)?;
        let target = capture.members.first().map(|first| first.target.clone());
        let shared: Option<Arc<Bit>> =
            capture.parent.as_ref().and_then(|cond| cond.upgrade()).map(|cond| cond.end());
        drop(capture);
        let end = match shared {
            Some(end) => end,
            None => device.new_bit()?,
        };
        lock(&self.graph.build).end = Some(end.clone());
        let sqe = self.graph.name_in(end.entry(kind::NOTIFY_RECORD, 0));
        target.ok_or_else(gone)?.submit(device, sqe)?;
        self.load()
    }
}
