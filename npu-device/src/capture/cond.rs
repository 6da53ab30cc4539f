//! Conditions: a task of a capture that runs one of its branches, by a cell of 64 bits.
//!
//! | kind | branches | runs |
//! |---|---|---|
//! | if | 1 or 2 | 0 when the cell is not 0, else 1 if there is one |
//! | while | 1 | 0 as long as the cell is not 0 |
//! | switch | 1 or more | the one whose number is in the cell, if there is one |

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use executor_core::error::Code;

use crate::capture::Stage;
use crate::codes::{
    AICORE_EXCEPTION, Error, INTERNAL_ERROR, MODEL_EXECUTE, PARAM_INVALID, RESOURCE_ALLOC_FAIL,
    Result, STREAM_NOT_CAPTURED, refuse,
};
use crate::device::Inner;
use crate::lock::lock;
use crate::memory::Memory;
use crate::model::{Graph, Model, Start};
use crate::notify::Bit;
use crate::sqe::{Sqe, task};
use crate::step::Flow;
use crate::stream::{Core, Cursor, Stream};
use crate::table::Name;

/// Conditions a device has: each has a notify.
pub(crate) const CONDS_MAX: u32 = crate::notify::NOTIFIES_MAX;

/// How a condition chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CondType {
    /// By zero or not.
    If = 0,
    /// Again and again.
    While = 1,
    /// By number.
    Switch = 2,
}

/// What tasks know of a condition.
#[derive(Debug)]
pub(crate) struct Cond {
    id: u32,
    /// Where the cell is.
    address: u64,
    /// The cell, unless it is in raw memory.
    cell: Option<Memory>,
    default: u64,
    reset: bool,
    /// Set when a branch has ended.
    end: Arc<Bit>,
    /// It has its task, or is about to.
    used: AtomicBool,
    /// Empty until its task is added.
    kind: Mutex<Option<(CondType, Vec<Model>)>>,
}

impl Cond {
    pub(super) fn reset(&self) -> Option<(u64, u64)> {
        self.reset.then_some((self.address, self.default))
    }

    pub(super) fn end(&self) -> Arc<Bit> {
        self.end.clone()
    }

    pub(super) fn branches(&self) -> Vec<Arc<Graph>> {
        let kind = lock(&self.kind);
        kind.iter().flat_map(|(_, models)| models.iter().map(|model| model.graph.clone())).collect()
    }

    /// The branch to run now.
    fn choose(&self, value: u64) -> Option<Arc<Graph>> {
        let kind = lock(&self.kind);
        let (kind, branches) = kind.as_ref()?;
        let index = match kind {
            CondType::If => usize::from(value == 0),
            CondType::While if value == 0 => return None,
            CondType::While => 0,
            CondType::Switch => usize::try_from(value).ok()?,
        };
        branches.get(index).map(|model| model.graph.clone())
    }

    fn repeats(&self) -> bool {
        lock(&self.kind).as_ref().is_some_and(|(kind, _)| *kind == CondType::While)
    }

    /// With its model.
    pub(crate) fn release(&self, device: &Inner) -> Result<()> {
        let branches = lock(&self.kind).take().map(|(_, branches)| branches);
        for branch in branches.into_iter().flatten() {
            branch.teardown()?;
        }
        device.conds.remove(self.id);
        device.drop_bit(&self.end);
        self.cell.clone().into_iter().for_each(Memory::free);
        Ok(())
    }
}

/// A condition of a model that is being captured.
#[derive(Clone, Debug)]
pub struct CondHandle {
    cond: Arc<Cond>,
    graph: Arc<Graph>,
}

impl CondHandle {
    /// The cell that decides: 64 bits at offset 0, freed with the model. None in raw memory.
    #[must_use]
    pub fn cell(&self) -> Option<&Memory> {
        self.cond.cell.as_ref()
    }
}

impl Model {
    /// A condition for this model, which is being captured. The cell is 0 at first; with `reset` it
    /// is set to `default` before each run.
    ///
    /// # Errors
    /// 107000 unless the model is being captured; 207001 and 207009 when the device has no memory
    /// or notify left, of which each has one.
    pub fn condition(&self, default: u64, reset: bool) -> Result<CondHandle> {
        let cell = self.context.allocate(8)?;
        let made = self.make_condition(cell.address(0), Some(cell.clone()), default, reset);
        made.inspect_err(|_| cell.free())
    }

    /// The same with a cell in the raw memory that the device was made with, which is there as long
    /// as the model.
    ///
    /// # Errors
    /// As [`Model::condition`].
    pub fn condition_at(&self, address: u64, default: u64, reset: bool) -> Result<CondHandle> {
        self.make_condition(address, None, default, reset)
    }

    fn make_condition(
        &self,
        address: u64,
        cell: Option<Memory>,
        default: u64,
        reset: bool,
    ) -> Result<CondHandle> {
        let capture = self.graph.capture.as_ref().map(lock);
        let active = capture.filter(|capture| capture.stage == Stage::Active);
        let Some(mut capture) = active else {
            return refuse(PARAM_INVALID, format!("model {} is not being captured", self.id()));
        };
        let device = self.context.device();
        let end = device.new_bit()?;
        let make = |name: Name| Cond {
            id: name.id,
            address,
            cell,
            default,
            reset,
            end,
            used: AtomicBool::new(false),
            kind: Mutex::new(None),
        };
        let cond = device.conds.insert(make).ok_or_else(|| {
            Error::new(RESOURCE_ALLOC_FAIL, format!("all {CONDS_MAX} conditions are used"))
        })?;
        capture.conds.push(cond.clone());
        Ok(CondHandle { cond, graph: self.graph.clone() })
    }
}

impl Stream {
    /// Adds the task of a condition to a stream that is captured into its model; the branches,
    /// each to be captured before this capture ends.
    ///
    /// # Errors
    /// 107000 for a number of branches that does not fit the kind, a condition that has its task
    /// already, or one of another model; 107029 when the stream is not captured.
    pub fn add_condition(
        &self,
        handle: &CondHandle,
        kind: CondType,
        branches: usize,
    ) -> Result<Vec<Model>> {
        let fits = match kind {
            CondType::If => (1..=2).contains(&branches),
            CondType::While => branches == 1,
            CondType::Switch => branches >= 1,
        };
        if !fits {
            return refuse(PARAM_INVALID, format!("{kind:?} does not have {branches} branches"));
        }
        let Some(graph) = self.capture() else {
            return refuse(STREAM_NOT_CAPTURED, format!("stream {} is not captured", self.id()));
        };
        if !Arc::ptr_eq(&graph, &handle.graph) {
            return refuse(PARAM_INVALID, "the condition is of another model");
        }
        if handle.cond.used.swap(true, Ordering::Relaxed) {
            return refuse(PARAM_INVALID, "the condition has its task already");
        }
        let models = self.branches(&handle.cond, branches).inspect_err(|_| {
            handle.cond.used.store(false, Ordering::Relaxed);
        })?;
        *lock(&handle.cond.kind) = Some((kind, models.clone()));
        Ok(models)
    }

    fn branches(&self, cond: &Arc<Cond>, branches: usize) -> Result<Vec<Model>> {
        cond.end.expect_wait(self.context.device().streams.live() + 1);
        let mut models: Vec<Model> = Vec::new();
        for _ in 0..branches {
            match Model::capture_begin(&self.context, Some(cond)) {
                Ok(model) => models.push(model),
                Err(error) => {
                    models.iter().try_for_each(Model::teardown)?;
                    return Err(error);
                }
            }
        }
        let mut sqe = Sqe::place_holder(task::CAPTURE_CONDITION);
        sqe.payload[0] = u64::from(cond.id);
        if let Err(error) = self.put(sqe) {
            models.iter().try_for_each(Model::teardown)?;
            return Err(error);
        }
        Ok(models)
    }
}

impl Inner {
    /// The task: start the branch that the cell chooses and wait for its end.
    pub(crate) fn condition(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) -> Flow {
        let cond = u32::try_from(sqe.payload[0]).ok().and_then(|id| self.conds.get(id));
        let Some(cond) = cond else { return Flow::Fail(INTERNAL_ERROR) };
        let branch = match cursor.branch.take() {
            Some(branch) => branch,
            None => {
                let Ok(value) = self.load(cond.address, 8) else {
                    return Flow::Fail(AICORE_EXCEPTION);
                };
                let Some(branch) = cond.choose(value) else { return Flow::Next };
                match branch.start(self, stream, None) {
                    Start::Begun => branch,
                    Start::Busy => return Flow::Wait,
                    Start::NotLoaded => return Flow::Fail(MODEL_EXECUTE),
                }
            }
        };
        if !cond.end.take_or_wait(stream) {
            cursor.branch = Some(branch);
            return Flow::Wait;
        }
        match branch.take_end(self) {
            Code::SUCCESS if cond.repeats() => Flow::Jump(stream.clone(), cursor.at),
            Code::SUCCESS => Flow::Next,
            code => Flow::Fail(code),
        }
    }

    /// The stream that waits for a branch was stopped: the branch ends too.
    pub(crate) fn leave_condition(&self, stream: &Arc<Core>, cursor: &mut Cursor, sqe: &Sqe) {
        let cond = u32::try_from(sqe.payload[0]).ok().and_then(|id| self.conds.get(id));
        let Some(cond) = cond else { return };
        cond.end.give_up(&self.sched, stream);
        match cursor.branch.take() {
            Some(branch) => branch.abandon(self, &cond.end),
            None => cond.branches().iter().for_each(|branch| branch.give_up(stream)),
        }
    }
}
