//! One run of a model as a task of the shared loop ([`executor_rt::node::processor`]).
//!
//! ```text
//! inputs held ─► a code or no data in one of them? passed on to every output, no run
//!             ─► a core of the device ─► the set is delivered
//!             ─► an mbuf for each output ─► run: inputs read, outputs written where they lie
//!             ─► descriptor and head ─► sent to every destination ─► the core is given back
//! ```
//! A sleep in between, for a free mbuf, gives the core back; then there is another one before the
//! run.
//! Whatever does not fit the model is a code on this id; the loop goes on. No allocation, no clock
//! (unless times are asked for), no log line on the way of a set that fits.

use std::sync::Arc;

use executor_core::abi::{DataFlag, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_core::model_state::{ModelOp, ModelState};
use executor_core::pool::Worker;
use executor_rt::log::Logger;
use executor_rt::node::reader::Reader;
use executor_rt::node::{End, HeadOf, Node, Task, Verdict, add};
use executor_rt::{payload, report};
use npu::aligned::{AlignedBytes, is_aligned};
use npu::engine::{Input, RunError};
use npu::team::Team;
use sys::clock::MonoTime;

use crate::model::Model;
use crate::place::Orders;
use crate::tensor::{self, Malformed};

/// Most inputs, and most outputs, of a model.
pub(crate) const BOUND_MAX: usize = 64;

/// Where an input of the model comes from.
#[derive(Debug)]
pub(crate) struct Source {
    /// Input port, one for each queue.
    pub(crate) port: usize,
    /// Which of the tensors fused in one message.
    pub(crate) tensor: usize,
    /// Where the bytes are copied when they do not lie as the engine needs them; only a fused
    /// tensor can.
    pub(crate) copy: AlignedBytes,
}

/// Where an output of the model goes.
#[derive(Debug)]
pub(crate) struct Target {
    /// Descriptor of its messages.
    pub(crate) desc: RuntimeTensorDesc,
    /// Bytes of its data.
    pub(crate) bytes: usize,
    /// Message of the set under way.
    pub(crate) mbuf: Option<Mbuf>,
    /// Where it is written when nobody reads it.
    pub(crate) unread: AlignedBytes,
}

/// Everything of one model that runs.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The shared loop's part.
    pub(crate) node: Node<Orders>,
    /// The program, shared by its instances.
    pub(crate) model: Arc<Model>,
    /// One for each input of the model.
    pub(crate) sources: Box<[Source]>,
    /// One for each output of the model.
    pub(crate) targets: Box<[Target]>,
    /// Working memory of a run.
    pub(crate) arena: AlignedBytes,
    /// Threads of the device that help, unless they help another model.
    pub(crate) team: Option<&'static Team>,
    /// Log under the name of the graph's node.
    pub(crate) logger: &'static Logger,
}

/// Why a run gave no outputs.
enum Fault {
    Message(usize, Malformed),
    Run(RunError),
    /// An output's mbuf is not writable any more: a peer freed or shared it.
    Output(usize),
}

impl Fault {
    fn code(&self) -> Code {
        match self {
            Fault::Message(..) => Code::PARAM_INVALID,
            Fault::Run(error) => error.code(),
            Fault::Output(_) => Code::PEER_FAULT,
        }
    }
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Fault::Message(input, malformed) => write!(f, "input {input}: {malformed}"),
            Fault::Run(error) => error.fmt(f),
            Fault::Output(output) => write!(f, "the message of output {output} is not ours alone"),
        }
    }
}

impl Loaded {
    /// Gives back the messages of outputs that were not sent.
    pub(crate) fn drop_outputs(&mut self) {
        for target in &mut self.targets {
            if let Some(mbuf) = target.mbuf.take() {
                self.node.free(mbuf);
            }
        }
    }

    /// A message for every output that somebody reads.
    fn take_outputs(&mut self) -> Result<(), Code> {
        for (port, target) in self.targets.iter_mut().enumerate() {
            let read = self.node.writer.ports.get(port).is_some_and(|range| !range.is_empty());
            if read {
                let size = (TENSOR_DESC_SIZE + target.bytes) as u64;
                target.mbuf = Some(self.node.alloc(size, HeadOf::Input, self.logger)?);
            }
        }
        Ok(())
    }

    /// Waits for a core of the device, unless it holds one.
    fn enter(&mut self) -> Result<(), End> {
        let (node, logger) = (&mut self.node, self.logger);
        if node.control.seat.enter() {
            return Ok(());
        }
        loop {
            node.park(None, false, |node| node.control.seat.is_handed());
            if let Some(end) = node.serve(logger) {
                node.control.seat.withdraw();
                return Err(end);
            }
            if node.control.seat.take() {
                return Ok(());
            }
        }
    }

    #[allow(clippy::result_large_err, reason = "a box would allocate; a fault is rare")]
    fn run(&mut self) -> Result<(), Fault> {
        let Loaded { node, model, sources, targets, arena, team, .. } = self;
        let Node { worker, reader, control, .. } = node;
        // A team is that only with a core for each of its threads.
        let helpers = team.map_or(0, |team| u32::try_from(team.threads()).unwrap_or(1) - 1);
        let team = team.filter(|_| control.seat.enter_with(helpers));
        let mut inputs: heapless::Vec<Input<'_>, BOUND_MAX> = heapless::Vec::new();
        let mut copied = 0;
        for (index, source) in sources.iter_mut().enumerate() {
            let input = input(worker, reader, source, &mut copied)
                .map_err(|malformed| Fault::Message(index, malformed))?;
            let _fits = inputs.push(input);
        }
        let mut outputs: heapless::Vec<&mut [u8], BOUND_MAX> = heapless::Vec::new();
        for (index, target) in targets.iter_mut().enumerate() {
            let _fits = outputs.push(match &mut target.mbuf {
                None => &mut *target.unread,
                Some(mbuf) => payload::buffer_mut(worker, mbuf)
                    .and_then(|buffer| buffer.get_mut(TENSOR_DESC_SIZE..))
                    .ok_or(Fault::Output(index))?,
            });
        }
        // A run that goes on task by task is no stall.
        let ctl = worker.private.ctl;
        let ended = |_| add(&ctl.progress, 1);
        let run = model.run_with(&inputs, &mut outputs, arena, team, ended).map_err(Fault::Run);
        if copied != 0 {
            add(&worker.private.ctl.bytes_copied, copied);
        }
        run
    }

    /// Sends every output to its destinations.
    fn send(&mut self) -> Result<(), Code> {
        let Loaded { node, targets, logger, .. } = self;
        // Outputs have the head of the first input; any of them can end the sequence.
        let ends = node.reader.ends_sequence(&node.worker, node.trans_id);
        for (port, target) in targets.iter_mut().enumerate() {
            let Some(mut mbuf) = target.mbuf.take() else { continue };
            payload::set_tensor_desc(&node.worker, &mut mbuf, &target.desc);
            let access = node.worker.of(&mbuf);
            access.set_data_len((TENSOR_DESC_SIZE + target.bytes) as u64);
            access.set_eos(ends);
            access.update_msg_info(|info| {
                info.msg_type = MsgType::TENSOR_DATA;
                info.ret_code = 0;
                info.data_flag &= !DataFlag::NULL_DATA.bits();
            });
            let range = node.writer.ports.get(port).cloned().unwrap_or_default();
            let last = range.end.saturating_sub(1);
            for destination in range.start..last {
                match node.copy_ref(&mbuf, logger) {
                    Ok(copy) => node.writer.push(&mut node.worker, destination, copy),
                    Err(code) => {
                        node.free(mbuf);
                        return Err(code);
                    }
                }
            }
            node.writer.push(&mut node.worker, last, mbuf);
        }
        Ok(())
    }

    fn execute(&mut self) -> Verdict {
        if let Some(port) = passing(&self.node) {
            if let Err(end) = self.node.pass_on(port, self.logger) {
                self.node.ending = Some(end);
            }
            return Verdict::Done;
        }
        if let Err(code) = self.take_outputs() {
            self.drop_outputs();
            return Verdict::Answer(code);
        }
        if let Err(end) = self.enter() {
            self.drop_outputs();
            self.node.ending = Some(end);
            return Verdict::Done;
        }
        if let Err(fault) = self.run() {
            self.drop_outputs();
            let id = self.node.trans_id;
            report::warn(self.logger, Some(id), format_args!("the model does not run: {fault}"));
            return Verdict::Answer(fault.code());
        }
        if let Err(code) = self.send() {
            self.drop_outputs();
            return Verdict::Answer(code);
        }
        if self.targets.is_empty() {
            // A control output: nothing but that the set is done.
            return self.answer_control();
        }
        Verdict::Done
    }

    fn answer_control(&mut self) -> Verdict {
        if let Err(end) = self.node.answer_missing(Code::SUCCESS, self.logger) {
            self.node.ending = Some(end);
        }
        Verdict::Done
    }
}

/// The first input whose message has a code, or else no data: it is passed on.
fn passing(node: &Node<Orders>) -> Option<usize> {
    let info = |port: &usize| Some(node.worker.of(node.reader.get(*port)?).msg_info());
    let mut ports = 0..node.reader.inputs.len();
    let mut again = ports.clone();
    let code = ports.find(|port| info(port).is_some_and(|info| info.ret_code != 0));
    code.or_else(|| again.find(|port| info(port).is_some_and(|info| info.is_null_data())))
}

/// One input of the model, where it lies or copied to where the engine can read it.
fn input<'a>(
    worker: &Worker<'static>,
    reader: &'a Reader,
    source: &'a mut Source,
    copied: &mut u64,
) -> Result<Input<'a>, Malformed> {
    let mbuf = reader.get(source.port).ok_or(Malformed::Short)?;
    let message = payload::bytes_of(worker.of(mbuf), mbuf);
    let (info, bytes) = tensor::read(message, source.tensor)?;
    if is_aligned(bytes) {
        return Ok(Input { info, bytes });
    }
    // As much as the model reads; less is the engine's to refuse.
    let len = bytes.len().min(source.copy.len());
    let (to, from) = (source.copy.get_mut(..len), bytes.get(..len));
    if let (Some(to), Some(from)) = (to, from) {
        to.copy_from_slice(from);
        *copied += len as u64;
    }
    Ok(Input { info, bytes: source.copy.get(..len).unwrap_or_default() })
}

/// The task: a model while its loop runs.
#[derive(Debug)]
pub(crate) struct Run<'l>(pub(crate) &'l mut Loaded);

impl Task for Run<'_> {
    type Control = Orders;

    const WHAT: &'static str = "the model";

    fn with_node<T>(&mut self, call: impl FnOnce(&mut Node<Orders>) -> T) -> T {
        call(&mut self.0.node)
    }

    /// What is only passed on needs no core.
    fn admit(&mut self) -> Result<(), End> {
        if passing(&self.0.node).is_some() { Ok(()) } else { self.0.enter() }
    }

    fn execute(&mut self) -> Verdict {
        let start = self.0.node.options.timing.then(MonoTime::now);
        let verdict = self.0.execute();
        self.0.node.control.seat.leave();
        let life = self.0.node.control.desk.life;
        // Allowed while it runs.
        let _ended = life.enter(&[ModelOp::EndGraph]);
        if let Some(start) = start {
            add(&self.0.node.ctl().user_ns, MonoTime::now().since_ns(start));
        }
        verdict
    }

    /// Once more, unless that was the last round. A set that was answered without a run leaves the
    /// model RUNNING.
    fn release(&mut self) {
        let control = &mut self.0.node.control;
        control.rounds.count();
        let (over, idle) =
            (control.rounds.is_over(), control.desk.life.state() == ModelState::Idle);
        if over != idle {
            let op = if over { ModelOp::EndGraph } else { ModelOp::Execute };
            let _entered = control.desk.life.enter(&[op]);
        }
    }
}
