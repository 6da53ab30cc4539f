//! Task groups: tasks of a capture that get other parameters later.

use std::sync::Arc;

use crate::capture::{Stage, can_be_updated};
use crate::codes::{
    MODEL_RUNNING, MODEL_UPDATE_FAILED, PARAM_INVALID, Result, STREAM_CAPTURED,
    STREAM_NOT_CAPTURED, TASK_TYPE_NOT_SUPPORT, refuse,
};
use crate::lock::lock;
use crate::model::Graph;
use crate::sqe::Sqe;
use crate::stream::{Placed, Stream};

/// Tasks of a capture model that can be updated together.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    graph: Arc<Graph>,
    tasks: Arc<[Placed]>,
}

impl TaskGroup {
    /// How many tasks it has.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }
}

/// An update under way on a stream.
#[derive(Debug)]
pub(crate) struct Update {
    group: TaskGroup,
    tasks: Vec<Sqe>,
}

impl Update {
    pub(crate) fn add(&mut self, sqe: Sqe) -> Result<()> {
        if !can_be_updated(&sqe) {
            return refuse(TASK_TYPE_NOT_SUPPORT, "an update holds what task groups hold only");
        }
        self.tasks.push(sqe);
        Ok(())
    }
}

impl Stream {
    /// From here on, tasks of this captured stream are a group.
    ///
    /// # Errors
    /// 107029 when it is not captured; 107000 when a group is open already.
    pub fn begin_task_group(&self) -> Result<()> {
        self.with_group(|group| match group {
            Some(_) => refuse(PARAM_INVALID, "a task group is open already"),
            None => {
                *group = Some(Vec::new());
                Ok(())
            }
        })
        .map(|(_, ())| ())
    }

    /// Ends the group.
    ///
    /// # Errors
    /// 107029 when the stream is not captured; 107000 when no group is open.
    pub fn end_task_group(&self) -> Result<TaskGroup> {
        let (graph, tasks) = self.with_group(|group| match group.take() {
            Some(tasks) => Ok(tasks),
            None => refuse(PARAM_INVALID, "no task group is open"),
        })?;
        Ok(TaskGroup { graph, tasks: tasks.into() })
    }

    fn with_group<R>(
        &self,
        act: impl FnOnce(&mut Option<Vec<Placed>>) -> Result<R>,
    ) -> Result<(Arc<Graph>, R)> {
        let graph = self.capture();
        let capture = graph.as_ref().and_then(|graph| graph.capture.as_ref());
        let (Some(graph), Some(capture)) = (&graph, capture) else {
            return refuse(STREAM_NOT_CAPTURED, format!("stream {} is not captured", self.id()));
        };
        let mut capture = lock(capture);
        capture.check_active()?;
        let index = capture.member(&self.core)?;
        act(&mut capture.members[index].group).map(|result| (graph.clone(), result))
    }

    /// From here on, tasks of this stream are not run but take the places of the group's tasks.
    ///
    /// # Errors
    /// 107027 when the stream is captured; 107000 when it is updating already or the group's model
    /// has ended or is being captured still.
    pub fn begin_update(&self, group: &TaskGroup) -> Result<()> {
        // Under no stream's lock: a capture takes those of its streams under its own.
        let ready = group.graph.is_captured() && !lock(&group.graph.build).destroyed;
        let mut submit = lock(&self.core.submit);
        if submit.capture.is_some() {
            return refuse(STREAM_CAPTURED, format!("stream {} is captured", self.id()));
        }
        if submit.update.is_some() || self.core.is_persistent() {
            return refuse(PARAM_INVALID, format!("stream {} can't update", self.id()));
        }
        if !ready {
            return refuse(PARAM_INVALID, "the group's model is not complete, or has ended");
        }
        submit.update = Some(Box::new(Update { group: group.clone(), tasks: Vec::new() }));
        Ok(())
    }

    /// Gives the group the parameters of the tasks that were submitted since, between two runs.
    ///
    /// # Errors
    /// 107000 when no update is under way; 107040 when number or kinds of the tasks differ from the
    /// group's, or its model has ended, and nothing is changed then; 107037 when its run does not
    /// end in the time that the device was configured with.
    pub fn end_update(&self) -> Result<()> {
        let Some(update) = lock(&self.core.submit).update.take() else {
            return refuse(PARAM_INVALID, format!("stream {} is not updating", self.id()));
        };
        let Update { group, tasks } = *update;
        let kind = |sqe: &Sqe| (sqe.kind(), (sqe.kind() == 3).then_some(sqe.task_type()));
        let old: Option<Vec<Sqe>> = group.tasks.iter().map(Placed::read).collect();
        let Some(old) = old else {
            return refuse(MODEL_UPDATE_FAILED, "the group's model has ended");
        };
        if old.len() != tasks.len() {
            let what = format!("{} tasks for a group of {}", tasks.len(), old.len());
            return refuse(MODEL_UPDATE_FAILED, what);
        }
        if let Some(at) = old.iter().zip(&tasks).position(|(a, b)| kind(a) != kind(b)) {
            return refuse(
                MODEL_UPDATE_FAILED,
                format!("task {at} of the group is of another kind"),
            );
        }
        let Some(capture) = &group.graph.capture else { return Ok(()) };
        let patience = self.context.device().config.patience;
        let changed = group.graph.while_idle(patience, || {
            let mut capture = lock(capture);
            if lock(&group.graph.build).destroyed {
                return refuse(MODEL_UPDATE_FAILED, "the group's model has ended");
            }
            capture.stage = Stage::Updating;
            for (placed, sqe) in group.tasks.iter().zip(&tasks) {
                placed.replace(sqe);
            }
            capture.stage = Stage::Ready;
            Ok(())
        });
        changed.unwrap_or_else(|| refuse(MODEL_RUNNING, "the group's model is running"))
    }
}
