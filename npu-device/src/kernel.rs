//! Kernels: what a task runs on a core. A function is registered once and named by number in
//! entries, so submitting one allocates nothing.

use std::sync::Arc;

use executor_core::error::Code;

use crate::codes::{AICORE_EXCEPTION, AICPU_EXCEPTION, Error, RESOURCE_ALLOC_FAIL, Result};
use crate::context::Context;
use crate::sqe::{Sqe, kind};
use crate::table::Name;

/// Functions a device has.
pub(crate) const FUNCTIONS_MAX: u32 = 1 << 16;

/// What a kernel is told of its task.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The task's own words.
    pub args: [u64; 4],
    /// Blocks that it was launched with.
    pub blocks: u16,
    /// Stream, as users know it.
    pub stream: u16,
    /// Task within the stream.
    pub task: u16,
}

/// Why a kernel failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It could not do its work; the code of the core it ran on.
    Exception,
    /// This code.
    Code(Code),
}

impl Fault {
    pub(crate) fn code(self, aicpu: bool) -> Code {
        match self {
            Self::Exception if aicpu => AICPU_EXCEPTION,
            Self::Exception => AICORE_EXCEPTION,
            Self::Code(code) => code,
        }
    }
}

/// Something that a core can run.
pub trait Kernel: Send + Sync {
    /// Runs it. Other tasks of the same stream wait; one that waits for them never ends.
    ///
    /// # Errors
    /// Why it failed.
    fn run(&self, call: &Call) -> std::result::Result<(), Fault>;
}

impl<F: Fn(&Call) -> std::result::Result<(), Fault> + Send + Sync> Kernel for F {
    fn run(&self, call: &Call) -> std::result::Result<(), Fault> {
        self(call)
    }
}

/// What the device keeps of a function.
pub(crate) struct Entry {
    pub(crate) place: Name,
    pub(crate) kernel: Arc<dyn Kernel>,
    pub(crate) name: Box<str>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "function {} {:?}", self.place.id, self.name)
    }
}

/// A registered function. It is there until [`Function::unregister`].
#[derive(Clone, Debug)]
pub struct Function {
    pub(crate) entry: Arc<Entry>,
    context: Context,
}

impl Function {
    pub(crate) fn register(context: &Context, name: &str, kernel: Arc<dyn Kernel>) -> Result<Self> {
        let make = |place| Entry { place, kernel, name: name.into() };
        let entry = context.device().functions.insert(make).ok_or_else(|| {
            Error::new(RESOURCE_ALLOC_FAIL, format!("all {FUNCTIONS_MAX} functions are used"))
        })?;
        Ok(Self { entry, context: context.clone() })
    }

    /// Whether an entry of a queue, that of a kernel, names this function.
    #[must_use]
    pub fn is_named_by(&self, sqe: &Sqe) -> bool {
        let kernel = matches!(sqe.kind(), kind::KERNEL | kind::AICPU);
        kernel && sqe.payload[0] == self.word()
    }

    /// What entries name it by.
    pub(crate) fn word(&self) -> u64 {
        self.entry.place.word()
    }

    /// What it is called in traces.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Ends it; a task that still names it fails.
    pub fn unregister(self) {
        self.context.device().functions.remove_named(self.word());
    }
}
