//! Why a verb of the exchange did nothing: a code, the queue, and a sentence.

use core::fmt;

use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;

/// Result of a verb of the exchange.
pub type Result<T> = core::result::Result<T, Refused>;

/// A verb that did nothing (or, after a dequeue, a message whose `ret_code` is not 0).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The code that peers and callers see.
    pub code: Code,
    /// The queue, when the verb names one.
    pub queue: Option<QueueId>,
    /// What was found and what was expected.
    pub why: &'static str,
}

impl Refused {
    /// With a sentence of its own.
    #[must_use]
    pub(crate) const fn new(code: Code, queue: Option<QueueId>, why: &'static str) -> Refused {
        Refused { code, queue, why }
    }

    /// With the code's own text.
    #[must_use]
    pub(crate) fn of(code: Code, queue: QueueId) -> Refused {
        Refused { code, queue: Some(queue), why: code.text() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(queue) = self.queue {
            write!(f, "queue {}: ", queue.0)?;
        }
        write!(f, "{} ({})", self.why, self.code.0.cast_signed())
    }
}

impl std::error::Error for Refused {}

/// An mbuf that was not enqueued: it is still the caller's.
#[derive(Debug, PartialEq, Eq)]
pub struct NotEnqueued {
    /// Still the caller's.
    pub mbuf: Mbuf,
    /// Why.
    pub refused: Refused,
}

impl fmt::Display for NotEnqueued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refused.fmt(f)
    }
}

impl std::error::Error for NotEnqueued {}
