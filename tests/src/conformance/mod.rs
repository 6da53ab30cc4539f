//! What every backend of models has to do, as one suite: cases that know nothing of who runs them.
//!
//! ```text
//! cases ── Backend ─┬─ SoftwareNpu   compiler and engine in this process
//!                   ├─ Executors     a deployed flow: session, queues, npu-executor processes
//!                   └─ Ascend        a device of this machine (tests/hil); none can be driven yet
//! ```
//! What a case expects is written down or computed by `reference`, never by the code under test;
//! models are written by `onnx`, which shares nothing with the compiler's reader. A case that a
//! backend cannot express is skipped with a reason and counted; it never counts as passed.

pub mod ascend;
pub mod cases;
pub mod executors;
pub mod onnx;
pub mod reference;
pub mod run;
pub mod software_npu;
pub mod tensor;
#[cfg(test)]
mod tests;

use dflow::Tensor;

use onnx::Onnx;

/// Something that runs models.
pub trait Backend {
    /// Its name, for the report.
    fn name(&self) -> &'static str;

    /// Whether it can be used here. Asked once, before any case.
    fn presence(&self) -> Presence;

    /// Compiles models and loads them side by side. Their inputs and outputs have different names.
    ///
    /// # Errors
    /// [`Stop::Refused`] when one of them is none that can run; else what went wrong.
    fn load(&self, models: &[Onnx]) -> Step<Box<dyn Loaded>>;

    /// A model behind queues, to be fed with messages of any kind.
    ///
    /// # Errors
    /// As [`Backend::load`]; [`Stop::Skipped`] when the backend has no messages.
    fn flow(&self, model: &Onnx) -> Step<Box<dyn Flow>>;
}

/// Whether a backend can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It can.
    Present,
    /// It is not here, and why: its cases are skipped.
    Absent(String),
    /// It is here and cannot be used, and why: its cases fail.
    Unusable(String),
}

/// Models that are loaded.
pub trait Loaded {
    /// Runs each of them once on the inputs of these names.
    ///
    /// # Errors
    /// What went wrong besides the run itself, whose code is in the answer.
    fn run(&mut self, inputs: &Values) -> Step<Result<Values, u32>>;

    /// Gives everything back.
    ///
    /// # Errors
    /// What is left.
    fn unload(self: Box<Self>) -> Step;
}

/// A model between queues.
pub trait Flow {
    /// Sends one message to each input, in order; the id.
    ///
    /// # Errors
    /// The backend is broken.
    fn feed(&mut self, messages: Vec<Message>) -> Step<u64>;

    /// What came of the next id.
    ///
    /// # Errors
    /// Nothing came.
    fn fetch(&mut self) -> Step<(u64, Answer)>;

    /// Gives everything back.
    ///
    /// # Errors
    /// What is left.
    fn close(self: Box<Self>) -> Step;
}

/// Tensors by name.
pub type Values = Vec<(String, Tensor)>;

/// What is sent to an input.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// A tensor, of whatever type and shape.
    Tensor(Tensor),
    /// A code instead of data.
    Code(i32),
    /// No data, and no code.
    NoData,
}

/// What came of an id.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// One tensor an output, in order.
    Data(Vec<Tensor>),
    /// A code, the same on every output.
    Code(u32),
    /// Messages without data.
    NoData,
}

/// Why a step is the last one of its case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The backend has no such level.
    Skipped(String),
    /// The backend refuses to load the model.
    Refused(String),
    /// Something is not as it should be.
    Failed(String),
}

impl Stop {
    /// A failure in words.
    pub fn failed(what: impl std::fmt::Display) -> Self {
        Self::Failed(what.to_string())
    }
}

/// Outcome of a step.
pub type Step<T = ()> = Result<T, Stop>;
