//! The tasks of a set. Each can be done again from its beginning until it is done.

use std::sync::atomic::Ordering;
use std::time::Duration;

use executor_core::abi::head::EOS_VALUE;
use executor_core::error::Code;

use crate::codes::{
    AICPU_DISCARD_DATA, AICPU_PARAM_INVALID, AICPU_TASK_FAILED, INTERNAL_ERROR, Result, refuse,
};
use crate::feed::align::{Gather, oldest};
use crate::feed::message::Message;
use crate::feed::run::{Done, Run, Work};
use crate::feed::{Align, Loaded, Shared};
use crate::lock::lock;
use crate::memory::Memory;

/// What a task does that may have to wait.
enum Dequeued {
    All,
    Wait,
}

impl Loaded {
    /// Places of what can be waited for: input queues, output queues, any input queue, the end.
    pub(super) fn not_full(&self, output: usize) -> usize {
        self.queues.len() + output
    }

    fn any_place(&self) -> usize {
        self.queues.len() + self.config.output_queues.len()
    }

    pub(super) fn end_place(&self) -> usize {
        self.any_place() + 1
    }

    pub(super) fn wait_count(&self) -> usize {
        self.any_place() + 2
    }

    /// Something came; whether a turn waits for it. Of an input queue: for this one, or for any.
    pub(super) fn event(&self, place: usize) -> bool {
        let mut waits = lock(&self.waits);
        let awaited = waits.event(place);
        let any = place < self.queues.len() && !awaited && waits.event(self.any_place());
        awaited || any
    }

    fn reset(&self, place: usize) {
        lock(&self.waits).reset(place);
    }

    fn wait(&self, place: usize) -> bool {
        lock(&self.waits).wait(place)
    }

    pub(super) fn work(&self, at: usize) -> Work {
        const BEFORE: [Work; 6] = [
            Work::Dequeue,
            Work::CopyInputs,
            Work::PrepareOutputs,
            Work::Activate,
            Work::WaitEnd,
            Work::FillOutputs,
        ];
        let outputs = self.config.output_queues.len();
        match BEFORE.get(at) {
            Some(work) => *work,
            None if at - BEFORE.len() < outputs => Work::Enqueue(at - BEFORE.len()),
            None => Work::Repeat,
        }
    }

    pub(super) fn perform(&self, shared: &Shared, run: &mut Run, work: Work) -> Result<Done> {
        match work {
            Work::Dequeue => self.dequeue(run),
            Work::CopyInputs => self.copy_inputs(run),
            Work::Activate => self.activate(shared, run),
            Work::WaitEnd => self.wait_end(shared),
            Work::FillOutputs => Ok(self.fill_outputs(run)),
            Work::PrepareOutputs => Ok(self.prepare_outputs(run)),
            Work::Enqueue(output) => self.enqueue(run, output),
            Work::Repeat => self.repeat(run),
        }
    }

    fn dequeue(&self, run: &mut Run) -> Result<Done> {
        let catch = self.config.abnormal.catch;
        let outcome = match &self.config.align {
            Align::InOrder => self.each(run),
            Align::ByTime { offsets, interval } => self.by_time(run, offsets, *interval),
            Align::ById { max_cache, drop_out, timeout_ms } => {
                let limit = timeout_ms.map(|ms| Duration::from_millis(u64::from(ms)));
                self.by_id(run, *max_cache, *drop_out, limit)
            }
        };
        if let Ok(Dequeued::Wait) = outcome {
            return Ok(Done::Wait);
        }
        let heads: Vec<_> = run.set.iter().flatten().map(|message| message.head).collect();
        heads.iter().for_each(|head| run.take_head(head, catch));
        // Outputs get what the first input has.
        run.head = heads.first().copied().unwrap_or_default();
        outcome.map(|_| Done::Next)
    }

    /// One message of each queue that has none in the set yet.
    fn each(&self, run: &mut Run) -> Result<Dequeued> {
        for (port, (queue, place)) in self.queues.iter().zip(&mut run.set).enumerate() {
            self.reset(port);
            while place.is_none() {
                *place = queue.try_dequeue()?;
                if place.is_none() && self.wait(port) {
                    return Ok(Dequeued::Wait);
                }
            }
        }
        Ok(Dequeued::All)
    }

    fn by_time(&self, run: &mut Run, offsets: &[u64], interval: u64) -> Result<Dequeued> {
        loop {
            if let Dequeued::Wait = self.each(run)? {
                return Ok(Dequeued::Wait);
            }
            match oldest(&run.set, offsets, interval)? {
                Some(port) => run.set[port] = None,
                None => return Ok(Dequeued::All),
            }
        }
    }

    fn by_id(
        &self,
        run: &mut Run,
        max_cache: usize,
        drop_out: bool,
        limit: Option<Duration>,
    ) -> Result<Dequeued> {
        self.reset(self.any_place());
        let gather = run.gather.get_or_insert_with(Gather::default);
        loop {
            if let Some(set) = gather.ready() {
                run.set = set;
                return Ok(Dequeued::All);
            }
            match gather.forced_out(max_cache, limit) {
                Some(_) if drop_out => continue,
                Some(set) => {
                    run.set = set;
                    return refuse(AICPU_DISCARD_DATA, "messages of this id did not come");
                }
                None => {}
            }
            let mut came = false;
            for (port, queue) in self.queues.iter().enumerate() {
                if let Some(message) = queue.try_dequeue()? {
                    gather.add(port, self.queues.len(), message);
                    came = true;
                }
            }
            if came {
                continue;
            }
            if let Some((alarm, limit)) = self.alarm.as_ref().zip(limit) {
                alarm.set(gather.due(limit));
            }
            if self.wait(self.any_place()) {
                return Ok(Dequeued::Wait);
            }
        }
    }

    fn copy_inputs(&self, run: &Run) -> Result<Done> {
        if run.skips(self.config.abnormal.catch) {
            return Ok(Done::Next);
        }
        for (index, (memory, port)) in self.config.inputs.iter().zip(&self.ports).enumerate() {
            let Some(message) = &run.set[*port] else {
                return refuse(INTERNAL_ERROR, format!("input {index} has no message"));
            };
            let (found, needed) = (message.data.len(), memory.size());
            if found < needed {
                let what = format!("input {index} has {found} bytes; the model needs {needed}");
                return refuse(AICPU_PARAM_INVALID, what);
            }
            memory.put(0, &message.data[..needed])?;
        }
        Ok(Done::Next)
    }

    fn activate(&self, shared: &Shared, run: &Run) -> Result<Done> {
        shared.computed.store(0, Ordering::Release);
        if run.skips(self.config.abnormal.catch) {
            shared.end_graph(self);
            return Ok(Done::Next);
        }
        let generation = shared.generation.load(Ordering::Acquire);
        let started = self.config.model.execute_async(&self.compute);
        let started = started
            .and_then(|()| self.compute.launch_cpu(&self.end, 1, [generation, 0, 0, 0]).map(drop));
        // The set is answered with a code then, without a run.
        if started.is_err() && self.config.abnormal.catch {
            shared.end_graph(self);
        }
        started.map(|()| Done::Next)
    }

    fn wait_end(&self, shared: &Shared) -> Result<Done> {
        if self.wait(self.end_place()) {
            return Ok(Done::Wait);
        }
        match Code(shared.computed.load(Ordering::Acquire)) {
            Code::SUCCESS => Ok(Done::Next),
            code => refuse(code, "the model failed"),
        }
    }

    /// A message for each output queue, with room for its data.
    fn prepare_outputs(&self, run: &mut Run) -> Done {
        let skips = run.skips(self.config.abnormal.catch);
        run.outputs.clear();
        for output in 0..self.config.output_queues.len() {
            let memory = self.config.outputs.get(output).filter(|_| !skips);
            let data = Vec::with_capacity(memory.map_or(0, Memory::size));
            run.outputs.push(Some(Message { head: run.head, data }));
        }
        Done::Next
    }

    /// What the model made, and what is known of the set by now.
    fn fill_outputs(&self, run: &mut Run) -> Done {
        let (code, eos, null) = (run.code, run.eos, run.null);
        let skips = run.skips(self.config.abnormal.catch);
        for (output, message) in run.outputs.iter_mut().enumerate() {
            let Some(message) = message else { continue };
            message.data.clear();
            if let Some(memory) = self.config.outputs.get(output).filter(|_| !skips) {
                memory.read(|bytes| message.data.extend_from_slice(bytes));
            }
            if self.config.abnormal.catch {
                message.head.info.ret_code = code;
            }
            if eos {
                message.head.eos = EOS_VALUE;
            }
            if null {
                message.head.set_null();
            }
        }
        Done::Next
    }

    fn enqueue(&self, run: &mut Run, output: usize) -> Result<Done> {
        let abnormal = &self.config.abnormal;
        if run.code != 0 && !abnormal.enqueue {
            return Ok(Done::Next);
        }
        let place = self.not_full(output);
        self.reset(place);
        loop {
            let Some(message) = run.outputs[output].take() else { return Ok(Done::Next) };
            run.outputs[output] = self.config.output_queues[output].try_enqueue(message)?;
            if run.outputs[output].is_none() {
                return Ok(Done::Next);
            }
            if self.wait(place) {
                return Ok(Done::Wait);
            }
        }
    }

    fn repeat(&self, run: &Run) -> Result<Done> {
        if run.code != 0 && self.config.abnormal.stop {
            let what = format!("the set has the code {}, and ends the loop", run.code);
            return refuse(AICPU_TASK_FAILED, what);
        }
        Ok(Done::Again)
    }
}
