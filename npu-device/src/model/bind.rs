//! Binding and unbinding streams.
//!
//! Without AutoSplit the device is told at once; with it, binding is a note on the host and the
//! device hears of the stream when the model is complete. Of streams of the device's CPU it hears
//! nothing in either mode.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use executor_core::error::Code;

use crate::codes::{Error, MODEL_RUNNING, PARAM_INVALID, Result, STREAM_MODEL, refuse};
use crate::device::Inner;
use crate::lock::lock;
use crate::model::{Graph, Model};
use crate::sqe::{Maintenance, Operation, Sqe, kind};
use crate::stream::{Core, Queue, Stream};

impl Model {
    /// Binds a stream: a head runs from the start of the model, others when they are activated.
    ///
    /// # Errors
    /// 107005 when it is bound already; 107003 for a stream of another context; 107000 unless it is
    /// persistent and the model still open; 107026 for a model that comes of a capture.
    pub fn bind(&self, stream: &Stream, head: bool) -> Result<()> {
        stream.check_context(&self.context)?;
        self.refuse_captured()?;
        let core = &stream.core;
        if !core.is_persistent() {
            return refuse(PARAM_INVALID, format!("stream {} is not persistent", stream.id()));
        }
        {
            let mut build = lock(&self.graph.build);
            if build.complete || build.destroyed {
                return refuse(PARAM_INVALID, format!("model {} is complete", self.id()));
            }
            let mut bound = lock(&core.graph);
            if bound.upgrade().is_some() {
                let what = format!("stream {} is bound to a model already", stream.id());
                return refuse(STREAM_MODEL, what);
            }
            *bound = Arc::downgrade(&self.graph);
            if let Some(priority) = build.priority {
                core.set_level(priority.level());
            }
            build.streams.push_front(core.clone());
            if head {
                build.heads.push(core.clone());
            }
        }
        if self.context.device().config.auto_split || core.is_cpu() {
            return Ok(());
        }
        let told = self.maintain(Operation::StreamAdd, Some((core, head)));
        told.inspect_err(|_| self.forget(core))
    }

    /// Takes a stream out, after the model has ended its run; its tasks are dropped.
    ///
    /// # Errors
    /// 107005 when it is not bound to this model; 107037 while the model runs; 107026 for a model
    /// that comes of a capture.
    pub fn unbind(&self, stream: &Stream) -> Result<()> {
        self.refuse_captured()?;
        let core = &stream.core;
        if !core.graph().is_some_and(|graph| Arc::ptr_eq(&graph, &self.graph)) {
            let what = format!("stream {} is not bound to model {}", stream.id(), self.id());
            return refuse(STREAM_MODEL, what);
        }
        if !self.graph.wait_idle(self.context.device().config.patience) {
            return refuse(MODEL_RUNNING, format!("model {} is running", self.id()));
        }
        self.forget_end(core);
        self.unbind_core(core)
    }

    /// Without one of its streams a complete model does not run any more, and with the stream's
    /// tasks its end mark goes, if it is one of them.
    fn forget_end(&self, core: &Arc<Core>) {
        let slaves = lock(&core.submit).slaves.clone();
        let is_end = |sqe: &Sqe| sqe.kind() == kind::NOTIFY_RECORD && sqe.payload[1] != 0;
        let has_end =
            std::iter::once(core).chain(&slaves).any(|core| core.entries().iter().any(is_end));
        lock(&self.graph.exec).loaded = None;
        let end = if has_end { lock(&self.graph.build).end.take() } else { None };
        if let Some(end) = end {
            self.context.device().drop_bit(&end);
        }
    }

    pub(super) fn unbind_core(&self, core: &Arc<Core>) -> Result<()> {
        let device = self.context.device();
        let slaves = std::mem::take(&mut lock(&core.submit).slaves);
        for slave in &slaves {
            self.forget(slave);
            device.streams.remove_named(slave.word());
        }
        let told = core.bound.load(Ordering::Acquire);
        if told {
            self.maintain(Operation::StreamDelete, Some((core, false)))?;
        }
        self.forget(core);
        lock(&core.submit).forget_tasks();
        core.tail.store(0, Ordering::Release);
        let on_host = device.config.auto_split || core.is_cpu();
        let depth = if on_host { 0 } else { device.config.sq_depth as usize };
        core.set_queue(Queue::line(depth));
        Ok(())
    }

    /// The stream is no longer this model's, as far as the host knows.
    fn forget(&self, core: &Arc<Core>) {
        let mut build = lock(&self.graph.build);
        build.streams.retain(|other| !Arc::ptr_eq(other, core));
        build.heads.retain(|other| !Arc::ptr_eq(other, core));
        *lock(&core.graph) = Weak::new();
    }

    /// Tells the device something about the model, by a task of the context's control stream.
    pub(super) fn maintain(
        &self,
        operation: Operation,
        stream: Option<(&Arc<Core>, bool)>,
    ) -> Result<()> {
        let control = self.context.control();
        control.put(self.maintenance(operation, stream))?;
        control.synchronize(None)
    }

    pub(super) fn maintenance(
        &self,
        operation: Operation,
        stream: Option<(&Arc<Core>, bool)>,
    ) -> Sqe {
        let half = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        let executor_flag = if self.is_cpu() { 2 } else { 1 };
        let end = lock(&self.graph.build).end.as_ref().map_or(u16::MAX, |bit| half(bit.id));
        Sqe::maintenance(&Maintenance {
            model: half(self.id()),
            stream: stream.map_or(u16::MAX, |(core, _)| half(core.sq)),
            operation: operation as u16,
            stream_type: stream.map_or(0, |(_, head)| u16::from(!head)),
            end_notify: end,
            executor_flag,
            ..Maintenance::default()
        })
    }
}

impl Inner {
    /// The device's side of a maintenance entry.
    pub(crate) fn maintain(&self, sqe: &Sqe) {
        let [model, stream, operation] = [sqe.half(0), sqe.half(1), sqe.half(2)];
        if operation == Operation::StreamAdd as u16 || operation == Operation::StreamDelete as u16 {
            if let Some(core) = self.streams.get(u32::from(stream)) {
                core.bound.store(operation == Operation::StreamAdd as u16, Ordering::Release);
            }
        } else if operation == Operation::ModelDestroy as u16 {
            self.models.remove(u32::from(model));
        }
    }

    /// The model that an entry names, unless it has ended.
    pub(crate) fn graph(&self, sqe: &Sqe) -> Option<Arc<Graph>> {
        let id = u32::try_from(sqe.payload[1]).ok()?.checked_sub(1)?;
        self.models.get(id).filter(|graph| graph.serial == sqe.payload[2])
    }
}

impl Graph {
    /// An entry that names this model.
    pub(crate) fn name_in(&self, mut sqe: Sqe) -> Sqe {
        sqe.payload[1] = u64::from(self.id()) + 1;
        sqe.payload[2] = self.serial;
        sqe
    }
}

/// The error of a model that is not as far.
pub(super) fn not_ready(code: Code, model: &Model, what: &str) -> Error {
    Error::new(code, format!("model {} {what}", model.id()))
}
