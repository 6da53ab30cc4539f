//! Events in captures: they order its streams, and take other streams in.

use std::sync::{Arc, Weak};

use crate::capture::{Stage, begin::join};
use crate::codes::{CAPTURE_DEPENDENCY, EVENT_CAPTURED, Result, refuse};
use crate::event::{Event, Marks};
use crate::lock::lock;
use crate::model::Graph;
use crate::sqe::kind;
use crate::stream::Stream;

/// What an event knows that was recorded in a capture last.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    graph: Weak<Graph>,
    /// Tasks of each member that come before it.
    known: Vec<u64>,
}

impl Captured {
    /// The capture, if it is still under way.
    fn under_way(&self) -> Option<Arc<Graph>> {
        let graph = self.graph.upgrade()?;
        let under_way = graph.capture.as_ref().is_some_and(|c| lock(c).is_under_way());
        under_way.then_some(graph)
    }
}

impl Event {
    /// An event of a capture marks nothing outside it.
    pub(crate) fn refuse_if_captured(&self) -> Result<()> {
        let Some(captured) = self.marks.captured() else { return Ok(()) };
        if let Some(graph) = captured.under_way() {
            graph.invalidate();
        }
        refuse(EVENT_CAPTURED, format!("event {} was recorded in a capture", self.id()))
    }
}

impl Stream {
    pub(crate) fn record(&self, marks: &Arc<Marks>) -> Result<u16> {
        marks.record_as(false)?;
        let captured = self.capture();
        let mark = marks.next_mark();
        let sqe = marks.entry(kind::EVENT_RECORD, mark, 0);
        let Some(graph) = captured else {
            marks.set_captured(None);
            if let Some(graph) = self.core.graph() {
                graph.rewinds_of(marks, mark);
            }
            return self.put(sqe);
        };
        graph.rewinds_of(marks, mark);
        let task = self.put(sqe)?;
        if let Some(capture) = &graph.capture {
            let mut capture = lock(capture);
            let index = capture.member(&self.core)?;
            let known = capture.members[index].known.clone();
            marks.set_captured(Some(Captured { graph: Arc::downgrade(&graph), known }));
        }
        Ok(task)
    }

    /// Before a wait: takes this stream into the event's capture, or refuses what would tie a
    /// capture to something outside it.
    pub(crate) fn follow(&self, event: &Event) -> Result<()> {
        let (own, captured) = (self.capture(), event.marks.captured());
        match (own, captured) {
            (None, None) => Ok(()),
            (Some(own), None) => {
                if event.marks.expect_wait(0) == 0 {
                    return Ok(());
                }
                own.invalidate();
                let what = format!("event {} was not recorded in the capture", event.id());
                refuse(CAPTURE_DEPENDENCY, what)
            }
            (own, Some(captured)) => {
                let Some(graph) = captured.under_way() else {
                    if let Some(own) = own {
                        own.invalidate();
                    }
                    let what = format!("the capture that event {} is of is over", event.id());
                    return refuse(EVENT_CAPTURED, what);
                };
                if let Some(own) = own.filter(|own| !Arc::ptr_eq(own, &graph)) {
                    own.invalidate();
                    graph.invalidate();
                    let what = format!("event {} is of another capture", event.id());
                    return refuse(CAPTURE_DEPENDENCY, what);
                }
                self.merge(&graph, &captured)
            }
        }
    }

    fn merge(&self, graph: &Arc<Graph>, captured: &Captured) -> Result<()> {
        let Some(capture) = &graph.capture else { return Ok(()) };
        let mut capture = lock(capture);
        if capture.stage != Stage::Active {
            return capture.check_active();
        }
        if capture.member(&self.core).is_err() {
            self.may_capture()?;
            join(&self.context, graph, &mut capture, &self.core)?;
        }
        let index = capture.member(&self.core)?;
        let own = &mut capture.members[index].known;
        own.iter_mut().zip(&captured.known).for_each(|(own, theirs)| *own = (*own).max(*theirs));
        Ok(())
    }
}
