//! External events: a captured model marks an event for what is outside it, or waits for one that
//! was recorded outside, with every run.
//!
//! Which mark it is, is settled when a run is submitted: one that waits for the event afterwards
//! waits for this run, and a run waits for what was recorded before it was submitted. The numbers
//! travel in the entry that starts the run, so there are as many as it has room for.

use std::sync::Arc;

use crate::codes::{
    INTERNAL_ERROR, PARAM_INVALID, RESOURCE_ALLOC_FAIL, Result, STREAM_NOT_CAPTURED, refuse,
};
use crate::device::Inner;
use crate::event::{Event, Marks};
use crate::lock::lock;
use crate::model::Graph;
use crate::sqe::{Sqe, task};
use crate::step::Flow;
use crate::stream::{Core, Stream};

/// External tasks of one model.
pub(crate) const EXTERNALS_MAX: usize = 4;

/// Words of the entry that starts a run where their marks are.
pub(crate) const WORDS: [usize; EXTERNALS_MAX] = [0, 3, 4, 5];

/// An external task of a model.
#[derive(Clone, Debug)]
pub(crate) struct External {
    pub(crate) marks: Arc<Marks>,
    /// It marks the event; otherwise it waits.
    record: bool,
}

impl External {
    /// The mark of a run that is submitted now; makes room for the wait.
    pub(crate) fn number(&self, streams: usize) -> u64 {
        if self.record { self.marks.next_mark() } else { self.marks.expect_wait(streams) }
    }

    /// The run is not submitted after all.
    pub(crate) fn take_back(&self, number: u64) {
        if self.record {
            self.marks.take_back(number);
        }
    }

    /// The run is over, however it went: nobody outside waits for it longer.
    pub(crate) fn over(&self, device: &Inner, number: u64) {
        if self.record {
            self.marks.mark(&device.sched, number);
        }
    }
}

impl Stream {
    /// Marks an event for what is outside the capture, with every run.
    ///
    /// # Errors
    /// 107029 when the stream is not captured; 107000 in a branch of a condition, for the second
    /// external task with this event in the model, and for an event that was recorded otherwise;
    /// 207005 for the fifth external task of a model; else as [`Stream::nop`].
    pub fn record_event_external(&self, event: &Event) -> Result<u16> {
        self.external(event, true)
    }

    /// Waits, with every run, for the last record of an event outside the capture.
    ///
    /// # Errors
    /// As [`Stream::record_event_external`], but the event may be recorded anyhow.
    pub fn wait_event_external(&self, event: &Event) -> Result<u16> {
        self.external(event, false)
    }

    fn external(&self, event: &Event, record: bool) -> Result<u16> {
        let graph = self.capture();
        let capture = graph.as_ref().and_then(|graph| graph.capture.as_ref());
        let (Some(graph), Some(capture)) = (&graph, capture) else {
            return refuse(STREAM_NOT_CAPTURED, format!("stream {} is not captured", self.id()));
        };
        if lock(capture).is_sub() {
            return refuse(PARAM_INVALID, "an external event in a branch of a condition");
        }
        let place = {
            let build = lock(&graph.build);
            if build.externals.iter().any(|known| Arc::ptr_eq(&known.marks, &event.marks)) {
                let what = format!("event {} is external in this model already", event.id());
                return refuse(PARAM_INVALID, what);
            }
            if build.externals.len() == EXTERNALS_MAX {
                let what = format!("a model has {EXTERNALS_MAX} external tasks at most");
                return refuse(RESOURCE_ALLOC_FAIL, what);
            }
            build.externals.len()
        };
        if record {
            event.marks.record_as(true)?;
        }
        let external =
            if record { task::CAPTURE_RECORD_EXTERNAL } else { task::CAPTURE_WAIT_EXTERNAL };
        let mut sqe = Sqe::place_holder(external);
        sqe.payload[..2].copy_from_slice(&[event.marks.word(), place as u64]);
        let number = self.put(sqe)?;
        lock(&graph.build).externals.push(External { marks: event.marks.clone(), record });
        Ok(number)
    }
}

impl Inner {
    /// The event of an external task and the mark of this run.
    fn external(&self, stream: &Core, sqe: &Sqe) -> Option<(Arc<Marks>, u64)> {
        let marks = self.marks(sqe)?;
        let number = stream.graph()?.external_mark(usize::try_from(sqe.payload[1]).ok()?)?;
        Some((marks, number))
    }

    pub(crate) fn record_external(&self, stream: &Core, sqe: &Sqe) -> Flow {
        let Some((marks, number)) = self.external(stream, sqe) else {
            return Flow::Fail(INTERNAL_ERROR);
        };
        marks.mark(&self.sched, number);
        Flow::Next
    }

    pub(crate) fn wait_external(&self, stream: &Arc<Core>, sqe: &Sqe) -> Flow {
        let Some((marks, number)) = self.external(stream, sqe) else {
            return Flow::Fail(INTERNAL_ERROR);
        };
        if marks.passed_or_wait(stream, number) { Flow::Next } else { Flow::Wait }
    }

    pub(crate) fn leave_external(&self, stream: &Arc<Core>, sqe: &Sqe) {
        if let Some((marks, _)) = self.external(stream, sqe) {
            marks.give_up(stream);
        }
    }
}

impl Graph {
    /// The marks of a run that is submitted now, as words of the entry that starts it.
    pub(crate) fn number_externals(&self, sqe: &mut Sqe, streams: usize) {
        let build = lock(&self.build);
        for (word, external) in WORDS.into_iter().zip(&build.externals) {
            sqe.payload[word] = external.number(streams);
        }
    }

    /// That run was refused.
    pub(crate) fn forget_externals(&self, sqe: &Sqe) {
        let build = lock(&self.build);
        for (word, external) in WORDS.into_iter().zip(&build.externals) {
            external.take_back(sqe.payload[word]);
        }
    }
}
