//! One task: what each kind of entry does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use executor_core::error::Code;

use crate::codes::{AICORE_EXCEPTION, AICORE_TRAP, INTERNAL_ERROR, MODEL_EXECUTE, REPORT_TIMEOUT};
use crate::device::Inner;
use crate::host::called;
use crate::kernel::Call;
use crate::memory::is_own;
use crate::model::Start;
use crate::sqe::{Sqe, kind, task};
use crate::stream::{Compare, Core, Cursor, WaitValue};

/// How soon raw memory is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How a stream goes on after a task.
pub(crate) enum Flow {
    /// With the next one.
    Next,
    /// With the same one, when it is woken.
    Wait,
    /// At a task of this or another stream of the model.
    Jump(Arc<Core>, u64),
    /// It failed.
    Fail(Code),
}

impl Inner {
    pub(crate) fn step(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) -> Flow {
        match sqe.kind() {
            kind::KERNEL | kind::AICPU => self.kernel(sqe),
            kind::EVENT_RECORD => match self.marks(sqe) {
                Some(marks) => {
                    marks.mark(&self.sched, sqe.payload[1]);
                    Flow::Next
                }
                None => Flow::Fail(INTERNAL_ERROR),
            },
            kind::EVENT_WAIT => {
                let Some(marks) = self.marks(sqe) else {
                    return Flow::Fail(INTERNAL_ERROR);
                };
                let passed = marks.passed_or_wait(stream, sqe.payload[1]);
                wait(passed, cursor, sqe.payload[0] >> 32, || marks.give_up(stream))
            }
            kind::NOTIFY_RECORD => self.notify_record(sqe),
            kind::NOTIFY_WAIT => self.notify_wait(stream, cursor, sqe),
            kind::WRITE_VALUE => {
                let [address, value, ..] = sqe.payload;
                memory(self.store(address, value, 8))
            }
            kind::SDMA => {
                let [to, from, bytes, ..] = sqe.payload;
                memory(self.copy(to, from, size(bytes)))
            }
            kind::PLACE_HOLDER => self.place_holder(stream, cursor, sqe),
            _ => Flow::Fail(INTERNAL_ERROR),
        }
    }

    fn place_holder(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) -> Flow {
        match sqe.task_type() {
            task::NOP | task::LABEL_SET => Flow::Next,
            task::HOST_FUNCTION => self.host_function(stream, sqe),
            task::MEMSET => {
                let [address, value, bytes, ..] = sqe.payload;
                memory(self.fill(address, value.to_le_bytes()[0], size(bytes)))
            }
            task::WAIT_VALUE => self.wait_value(stream, cursor, sqe),
            task::EVENT_RESET => match self.marks(sqe) {
                Some(marks) => {
                    marks.rewind(1);
                    Flow::Next
                }
                None => Flow::Fail(INTERNAL_ERROR),
            },
            task::MODEL_EXECUTE => match self.graph(sqe) {
                Some(graph) => match graph.start(self, stream, Some(sqe)) {
                    Start::Begun => Flow::Next,
                    Start::Busy => Flow::Wait,
                    Start::NotLoaded => Flow::Fail(MODEL_EXECUTE),
                },
                None => Flow::Fail(MODEL_EXECUTE),
            },
            task::STREAM_SWITCH => self.stream_switch(stream, sqe),
            task::STREAM_ACTIVE => self.stream_active(stream, sqe),
            task::CAPTURE_RECORD_EXTERNAL => self.record_external(stream, sqe),
            task::CAPTURE_WAIT_EXTERNAL => self.wait_external(stream, sqe),
            task::CAPTURE_CONDITION => self.condition(stream, cursor, sqe),
            task::LABEL_GOTO => match self.labels.named(sqe.payload[0]) {
                Some(label) => label.target().map_or(Flow::Fail(INTERNAL_ERROR), jump),
                None => Flow::Fail(INTERNAL_ERROR),
            },
            task::LABEL_SWITCH_BY_INDEX => {
                let [address, count, list, ..] = sqe.payload;
                let Ok(index) = self.load(address, 4) else { return Flow::Fail(AICORE_EXCEPTION) };
                let list = self.lists.named(list);
                let label = list.as_ref().and_then(|list| list.label(index.min(count - 1)));
                label.and_then(|label| label.target()).map_or(Flow::Fail(INTERNAL_ERROR), jump)
            }
            task::MODEL_MAINTENANCE => {
                self.maintain(sqe);
                Flow::Next
            }
            _ => Flow::Fail(INTERNAL_ERROR),
        }
    }

    fn kernel(&self, sqe: &Sqe) -> Flow {
        let Some(entry) = self.functions.named(sqe.payload[0]) else {
            return Flow::Fail(INTERNAL_ERROR);
        };
        match catch_unwind(AssertUnwindSafe(|| entry.kernel.run(&call(sqe)))) {
            Ok(Ok(())) => Flow::Next,
            Ok(Err(fault)) => Flow::Fail(fault.code(sqe.kind() == kind::AICPU)),
            Err(_) => Flow::Fail(AICORE_TRAP),
        }
    }

    fn host_function(&self, stream: &Arc<Core>, sqe: &Sqe) -> Flow {
        match stream.called.load(Ordering::Acquire) {
            called::NOT => {
                self.host.call(stream, sqe.payload[0], call(sqe));
                Flow::Wait
            }
            called::DONE => {
                stream.called.store(called::NOT, Ordering::Relaxed);
                match Code(stream.call_outcome.load(Ordering::Relaxed)) {
                    Code::SUCCESS => Flow::Next,
                    code => Flow::Fail(code),
                }
            }
            _ => Flow::Wait,
        }
    }

    fn wait_value(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) -> Flow {
        let [address, operand, condition, ..] = sqe.payload;
        let Some(condition) = WaitValue::of(condition) else { return Flow::Fail(INTERNAL_ERROR) };
        for registered in [false, true] {
            let Ok(value) = self.load(address, 8) else {
                self.values.give_up(stream);
                return Flow::Fail(AICORE_EXCEPTION);
            };
            if condition.holds(value, operand) {
                self.values.give_up(stream);
                return Flow::Next;
            }
            if !registered {
                self.values.wait(stream);
            }
        }
        cursor.deadline = (!is_own(address)).then(|| Instant::now() + LOOK_AGAIN);
        Flow::Wait
    }

    fn notify_record(&self, sqe: &Sqe) -> Flow {
        if sqe.payload[1] != 0 {
            // The end mark of a model.
            let Some(graph) = self.graph(sqe) else { return Flow::Fail(MODEL_EXECUTE) };
            graph.mark_end(self);
            return Flow::Next;
        }
        match self.notify(sqe) {
            Some(bit) => {
                bit.record(&self.sched);
                Flow::Next
            }
            None => Flow::Fail(INTERNAL_ERROR),
        }
    }

    fn notify_wait(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) -> Flow {
        let Some(bit) = self.notify(sqe) else { return Flow::Fail(INTERNAL_ERROR) };
        if sqe.payload[1] == 0 {
            let set = bit.take_or_wait(stream);
            return wait(set, cursor, sqe.payload[0], || bit.give_up(&self.sched, stream));
        }
        // The end of a model that this stream has started.
        let Some(graph) = self.graph(sqe).filter(|graph| graph.is_run_by(stream)) else {
            return Flow::Fail(MODEL_EXECUTE);
        };
        if !bit.take_or_wait(stream) {
            return Flow::Wait;
        }
        match graph.take_end(self) {
            Code::SUCCESS => Flow::Next,
            code => Flow::Fail(code),
        }
    }

    fn stream_switch(&self, stream: &Arc<Core>, sqe: &Sqe) -> Flow {
        let [_, address, operand, compare, ..] = sqe.payload;
        let Some(compare) = Compare::of(compare) else { return Flow::Fail(INTERNAL_ERROR) };
        match self.load(address, 8) {
            Ok(value) if compare.holds(value.cast_signed(), operand.cast_signed()) => {
                self.stream_active(stream, sqe)
            }
            Ok(_) => Flow::Next,
            Err(_) => Flow::Fail(AICORE_EXCEPTION),
        }
    }

    fn stream_active(&self, stream: &Arc<Core>, sqe: &Sqe) -> Flow {
        let target = self.streams.named(sqe.payload[0]);
        let Some((target, graph)) = target.zip(stream.graph()) else {
            return Flow::Fail(INTERNAL_ERROR);
        };
        graph.joins();
        if self.sched.activate(&target, 0) {
            return Flow::Next;
        }
        graph.leaves(self);
        Flow::Fail(MODEL_EXECUTE)
    }

    /// A task that was begun no longer waits. False: it can't be left yet.
    pub(crate) fn give_up(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) -> bool {
        match (sqe.kind(), sqe.task_type()) {
            (kind::EVENT_WAIT, _) => {
                if let Some(marks) = self.marks(sqe) {
                    marks.give_up(stream);
                }
            }
            (kind::NOTIFY_WAIT, _) => {
                if let Some(bit) = self.notify(sqe) {
                    bit.give_up(&self.sched, stream);
                }
            }
            (kind::PLACE_HOLDER, task::CAPTURE_CONDITION) => {
                self.leave_condition(stream, cursor, sqe);
            }
            (kind::PLACE_HOLDER, task::CAPTURE_WAIT_EXTERNAL) => self.leave_external(stream, sqe),
            (kind::PLACE_HOLDER, task::WAIT_VALUE) => self.values.give_up(stream),
            (kind::PLACE_HOLDER, task::HOST_FUNCTION) => return self.host.take_back(stream),
            (kind::PLACE_HOLDER, task::MODEL_EXECUTE) => {
                if let Some(graph) = self.graph(sqe) {
                    graph.give_up(stream);
                }
            }
            _ => {}
        }
        true
    }
}

impl Inner {
    /// If the entry is the wait for the end of a model's run that this stream has started: the run
    /// ends too.
    pub(crate) fn abandon_run(&self, stream: &Arc<Core>, sqe: &Sqe) {
        if sqe.kind() != kind::NOTIFY_WAIT || sqe.payload[1] == 0 {
            return;
        }
        let graph = self.graph(sqe).filter(|graph| graph.is_run_by(stream));
        if let Some((graph, bit)) = graph.zip(self.notify(sqe)) {
            graph.abandon(self, &bit);
        }
    }
}

/// After a wait was tried: on, or wait, at most `timeout_s` seconds (0 is forever).
fn wait(passed: bool, cursor: &mut Cursor, timeout_s: u64, give_up: impl FnOnce()) -> Flow {
    if passed {
        return Flow::Next;
    }
    if !cursor.begun && timeout_s & 0xFFFF_FFFF != 0 {
        cursor.deadline = Some(Instant::now() + Duration::from_secs(timeout_s & 0xFFFF_FFFF));
    }
    if cursor.deadline.is_some_and(|at| at <= Instant::now()) {
        give_up();
        return Flow::Fail(REPORT_TIMEOUT);
    }
    Flow::Wait
}

fn call(sqe: &Sqe) -> Call {
    let [_, args @ .., _] = sqe.payload;
    let header = &sqe.header;
    let blocks = if sqe.kind() == kind::PLACE_HOLDER { 1 } else { header.block_dim };
    Call { args, blocks, stream: header.stream, task: header.task }
}

fn memory(done: Result<(), crate::memory::Outside>) -> Flow {
    if done.is_ok() { Flow::Next } else { Flow::Fail(AICORE_EXCEPTION) }
}

fn jump((stream, at): (Arc<Core>, u64)) -> Flow {
    Flow::Jump(stream, at)
}

fn size(word: u64) -> usize {
    usize::try_from(word).unwrap_or(usize::MAX)
}
