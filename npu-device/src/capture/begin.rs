//! Beginning a capture, and joining one.

use std::sync::Arc;
use std::thread;

use crate::capture::{Active, Capture, CaptureMode, CaptureStatus, Member, Stage};
use crate::codes::{
    MODEL_CAPTURED, PARAM_INVALID, Result, STREAM_CAPTURE_IMPLICIT, STREAM_CAPTURED, refuse,
};
use crate::context::Context;
use crate::lock::lock;
use crate::model::{Graph, Model};
use crate::stream::{Core, Stream, StreamFlags};

impl Stream {
    /// Begins to capture: tasks are written down from here on, and not run.
    ///
    /// # Errors
    /// 107027 when it is captured already; 107031 for the default stream, which is not the
    /// caller's alone; 107000 for a persistent one; 207008 and 207010 when the device has no stream
    /// or model left.
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<()> {
        self.begin(mode, None)
    }

    /// The same, into a branch of a condition.
    ///
    /// # Errors
    /// As [`Stream::begin_capture`]; 107026 when the branch was captured before; 107000 when the
    /// model is no branch.
    pub fn begin_capture_into(&self, branch: &Model, mode: CaptureMode) -> Result<()> {
        let capture = branch.graph.capture.as_ref().map(lock);
        match capture {
            Some(capture) if capture.is_sub() && capture.stage != Stage::None => {
                refuse(MODEL_CAPTURED, format!("branch {} was captured before", branch.id()))
            }
            Some(capture) if capture.is_sub() => {
                drop(capture);
                self.begin(mode, Some(&branch.graph))
            }
            _ => refuse(PARAM_INVALID, format!("model {} is no branch", branch.id())),
        }
    }

    fn begin(&self, mode: CaptureMode, into: Option<&Arc<Graph>>) -> Result<()> {
        self.may_capture()?;
        let mut captures = self.context.captures();
        let submit = lock(&self.core.submit);
        if submit.capture.is_some() {
            return refuse(STREAM_CAPTURED, format!("stream {} is captured already", self.id()));
        }
        if submit.update.is_some() {
            return refuse(PARAM_INVALID, format!("stream {} is updating a group", self.id()));
        }
        drop(submit);
        let model = match into {
            Some(graph) => Model { graph: graph.clone(), context: self.context.clone() },
            None => Model::capture_begin(&self.context, None)?,
        };
        let graph = &model.graph;
        let Some(capture) = &graph.capture else { return Ok(()) };
        // The lock is given back before the model goes, which takes it.
        let joined = join(&self.context, graph, &mut lock(capture), &self.core);
        if let Err(error) = joined {
            if into.is_none() {
                model.teardown()?;
            }
            return Err(error);
        }
        let thread = thread::current().id();
        let mut capture = lock(capture);
        (capture.stage, capture.mode, capture.thread) = (Stage::Active, mode, thread);
        captures.push(Active { serial: graph.serial, mode, thread, unwound: false });
        Ok(())
    }

    /// Whether it is a stream that can be captured.
    pub(super) fn may_capture(&self) -> Result<()> {
        if self.core.is_persistent() {
            return refuse(PARAM_INVALID, format!("stream {} is persistent", self.id()));
        }
        if self.context.is_default(&self.core) {
            return refuse(STREAM_CAPTURE_IMPLICIT, "the default stream can't be captured");
        }
        Ok(())
    }

    /// What this stream is to captures, and the model that it is captured into.
    #[must_use]
    pub fn capture_info(&self) -> (CaptureStatus, Option<Model>) {
        let Some(graph) = self.capture() else { return (CaptureStatus::None, None) };
        let stage = graph.capture.as_ref().map(|capture| lock(capture).stage);
        let status = match stage {
            Some(Stage::Active) => CaptureStatus::Active,
            _ => CaptureStatus::Invalidated,
        };
        (status, Some(Model { graph, context: self.context.clone() }))
    }
}

/// Makes a stream a member, with a target of its own that runs from the model's start.
pub(super) fn join(
    context: &Context,
    graph: &Arc<Graph>,
    capture: &mut Capture,
    user: &Arc<Core>,
) -> Result<()> {
    let device = context.device();
    let flags = StreamFlags(StreamFlags::PERSISTENT);
    let target = device.new_stream(flags, context.id(), None)?;
    target.set_level(user.level());
    *lock(&target.graph) = Arc::downgrade(graph);
    {
        let mut build = lock(&graph.build);
        build.streams.push_front(target.clone());
        build.heads.push(target.clone());
    }
    for member in &mut capture.members {
        member.known.push(0);
    }
    let known = vec![0; capture.members.len() + 1];
    capture.members.push(Member { user: user.clone(), target, known, group: None });
    lock(&user.submit).capture = Some(graph.clone());
    Ok(())
}
