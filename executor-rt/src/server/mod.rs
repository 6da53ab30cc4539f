//! The message server of an executor as a state machine: bytes in, one [`Action`] out.
//!
//! It is not a queue client: the caller dequeues, acts, and enqueues the [`Reply`]. Requests are
//! handled strictly in order, one at a time (executor-deployer §1.5–1.7, udf §4).
//!
//! ```text
//! starting ──init()──► ready ──receive()──► open ──complete()──► ready
//!     │ finalize          │ finalize          └ a failure of a UDF ─► stopped
//!     └──────────────► finalised
//! ```
//! I1 a request gets exactly one reply. I2 nothing is executed before the init response, while
//! another request is open, after finalize, or after a reply that stops the process: each ends as
//! a reply with `BAD_MESSAGE` that says what came too early or too late. I3 bytes from anywhere
//! end as a reply.
//!
//! | | built-in | udf |
//! |---|---|---|
//! | `message_id` | stays 0 | echoed |
//! | a failed request | is answered, the loop goes on | is answered, the process stops |
//! | bodies | all of §1.7 | clear, exception |
//! | finalize (head msg_type 2) | yes | yes (ours; the reference stops by SIGTERM only) |

mod check;

use executor_core::error::Code;

use crate::proto::{
    BatchLoadModelMessage, DataflowExceptionNotifyRequest, ExecutorRequest, ExecutorResponse,
    UnloadModelRequest, UpdateProfRequest, decode_request,
};

pub use check::Refusal;

/// `MsgInfo.msg_type` of a finalize message; everything else is a request.
pub const MSG_TYPE_FINALIZE: u16 = 2;
/// Text of a built-in executor's init response.
pub const TEXT_INITIALIZED: &str = "Executor initialized success.";
/// Text of a built-in executor's success response.
pub const TEXT_SUCCESS: &str = "success";
/// A request without a body.
pub const TEXT_NO_CONTENT: &str = "request has no content";
/// A failed load.
pub const TEXT_LOAD_FAILED: &str = "Failed to batch load models";
/// Unload of an unknown model.
pub const TEXT_NO_SUCH_MODEL: &str = "Failed to get model";
/// Exception for an unknown model.
pub const TEXT_NO_MODEL_FOUND: &str = "No model found";

/// Which executor speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `npu_executor`, `host_cpu_executor`.
    BuiltIn,
    /// `udf-executor`.
    Udf,
}

impl Dialect {
    /// The code of a failure that has no better one.
    #[must_use]
    pub const fn failed(self) -> Code {
        match self {
            Dialect::BuiltIn => Code::FAILED,
            Dialect::Udf => Code::FLOW_FUNC_FAILED,
        }
    }

    /// The code of a value that is missing or wrong.
    #[must_use]
    pub const fn invalid(self) -> Code {
        match self {
            Dialect::BuiltIn => Code::PARAM_INVALID,
            Dialect::Udf => Code::FLOW_FUNC_PARAM_INVALID,
        }
    }
}

/// What a clear request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clear {
    /// Type 1: stop (suspend).
    Stop,
    /// Type 2: clear inputs and restart (recover).
    Restart,
}

/// What the executor does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Enqueue this reply; nothing to execute.
    Reply(Reply),
    /// Load, then [`MessageServer::complete`].
    Load(BatchLoadModelMessage),
    /// Unload, then `complete`.
    Unload(UnloadModelRequest),
    /// Stop or restart, then `complete`.
    Clear {
        /// The root model.
        model_id: u32,
        /// Which of both.
        clear: Clear,
    },
    /// Add or delete an exception, then `complete`.
    Exception(DataflowExceptionNotifyRequest),
    /// Start or stop profiling, then `complete`.
    Profiling(UpdateProfRequest),
    /// Variable memory set-up (opaque), then `complete`.
    SyncVar(Vec<u8>),
    /// Leave the loop normally; there is no reply.
    Finalize,
}

/// A response and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What the parent gets.
    pub response: ExecutorResponse,
    /// The process stops after sending it.
    pub stop: bool,
    /// What happened, for the log; empty for success.
    pub detail: String,
}

/// Why an action failed, as the executor reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the parent gets as `error_code`.
    pub code: Code,
    /// What, where, found and expected. Built-in executors send it, UDF executors log it.
    pub text: String,
}

impl Failure {
    /// A failure with its text.
    #[must_use]
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// The kinds of control messages that a UDF's texts name (udf §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// −1.
    Init,
    /// 1.
    Suspend,
    /// 2.
    Recover,
    /// 3.
    Exception,
    /// 99.
    Unknown,
    /// Any other number.
    Other(i32),
}

impl Kind {
    /// The text of a UDF's reply, such as "Execute suspend success.".
    #[must_use]
    pub fn text(self, success: bool) -> String {
        let outcome = if success { "success." } else { "failed." };
        match self {
            Self::Init => format!("Execute init {outcome}"),
            Self::Suspend => format!("Execute suspend {outcome}"),
            Self::Recover => format!("Execute recover {outcome}"),
            Self::Exception => format!("Execute exception message {outcome}"),
            Self::Unknown => format!("Parse control message {outcome}"),
            Self::Other(number) => format!("Unknown operator {number} {outcome}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Starting,
    Ready,
    Open { kind: Kind, message_id: u64 },
    Stopped,
    Finalised,
}

/// The state machine.
#[derive(Debug)]
pub struct MessageServer {
    dialect: Dialect,
    state: State,
}

impl MessageServer {
    /// A server that has not sent its init response.
    #[must_use]
    pub const fn new(dialect: Dialect) -> Self {
        Self { dialect, state: State::Starting }
    }

    /// Makes the init response; requests are accepted from now on unless it is a failure.
    ///
    /// # Errors
    /// [`Failure`] when it was made before.
    pub fn init(&mut self, outcome: Result<(), Failure>) -> Result<Reply, Failure> {
        if self.state != State::Starting {
            return Err(Failure::new(Code::FAILED, "the init response was sent before"));
        }
        let reply = match (self.dialect, outcome) {
            (Dialect::BuiltIn, Ok(())) => self.reply(0, Code::SUCCESS, TEXT_INITIALIZED, false, ""),
            (Dialect::BuiltIn, Err(failure)) => {
                self.reply(0, failure.code, &failure.text, true, &failure.text)
            }
            (Dialect::Udf, outcome) => self.udf_reply(0, Kind::Init, outcome),
        };
        self.state = if reply.stop { State::Stopped } else { State::Ready };
        Ok(reply)
    }

    /// Takes one message of the request queue: its head's `msg_type` and its payload.
    pub fn receive(&mut self, msg_type: u16, payload: &[u8]) -> Action {
        if msg_type == MSG_TYPE_FINALIZE {
            return self.finalize();
        }
        let request = decode_request(payload);
        let message_id = request.as_ref().map_or(0, |request| request.message_id);
        if let Some(text) = self.out_of_order("request") {
            return Action::Reply(self.reply_out_of_order(message_id, text));
        }
        let checked = match request {
            Ok(request) => check::check(self.dialect, request),
            Err(error) => {
                Err(Refusal { kind: Kind::Unknown, code: error.code(), text: error.to_string() })
            }
        };
        match checked {
            Ok((kind, action)) => {
                self.state = State::Open { kind, message_id };
                action
            }
            Err(refusal) => Action::Reply(self.refuse(message_id, refusal)),
        }
    }

    /// Closes the open request with its outcome.
    ///
    /// # Errors
    /// [`Failure`] when no request is open.
    pub fn complete(&mut self, outcome: Result<(), Failure>) -> Result<Reply, Failure> {
        let State::Open { kind, message_id } = self.state else {
            return Err(Failure::new(Code::FAILED, "no request is open, nothing to complete"));
        };
        let reply = match (self.dialect, outcome) {
            (Dialect::BuiltIn, Ok(())) => self.reply(0, Code::SUCCESS, TEXT_SUCCESS, false, ""),
            (Dialect::BuiltIn, Err(failure)) => {
                self.reply(0, failure.code, &failure.text, false, &failure.text)
            }
            (Dialect::Udf, outcome) => self.udf_reply(message_id, kind, outcome),
        };
        self.state = if reply.stop { State::Stopped } else { State::Ready };
        Ok(reply)
    }

    /// Whether a request waits for [`MessageServer::complete`]; the caller dequeues no other then.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Whether the server is done: finalised, or stopped by a failure.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Stopped | State::Finalised)
    }

    fn finalize(&mut self) -> Action {
        match self.state {
            State::Starting | State::Ready => {
                self.state = State::Finalised;
                Action::Finalize
            }
            State::Open { .. } | State::Stopped | State::Finalised => {
                let text = self.out_of_order("finalize").unwrap_or_default();
                Action::Reply(self.reply_out_of_order(0, text))
            }
        }
    }

    fn out_of_order(&self, what: &str) -> Option<String> {
        match self.state {
            State::Ready => None,
            State::Starting => Some(format!("{what} before the init response")),
            State::Open { message_id, .. } => {
                Some(format!("{what} while request {message_id} is being executed"))
            }
            State::Stopped => Some(format!("{what} after a failure that stops the process")),
            State::Finalised => Some(format!("{what} after finalize")),
        }
    }

    /// The state stays as it is: a message at the wrong time changes nothing.
    fn reply_out_of_order(&self, message_id: u64, text: String) -> Reply {
        match self.dialect {
            Dialect::BuiltIn => self.reply(0, Code::BAD_MESSAGE, &text, false, &text),
            Dialect::Udf => {
                let sent = Kind::Unknown.text(false);
                self.reply(message_id, Code::BAD_MESSAGE, &sent, false, &text)
            }
        }
    }

    fn refuse(&mut self, message_id: u64, refusal: Refusal) -> Reply {
        let Refusal { kind, code, text } = refusal;
        match self.dialect {
            Dialect::BuiltIn => self.reply(0, code, &text, false, &text),
            Dialect::Udf => {
                self.state = State::Stopped;
                self.udf_reply(message_id, kind, Err(Failure { code, text }))
            }
        }
    }

    fn udf_reply(&self, message_id: u64, kind: Kind, outcome: Result<(), Failure>) -> Reply {
        match outcome {
            Ok(()) => self.reply(message_id, Code::SUCCESS, &kind.text(true), false, ""),
            Err(Failure { code, text }) => {
                self.reply(message_id, code, &kind.text(false), true, &text)
            }
        }
    }

    fn reply(&self, message_id: u64, code: Code, text: &str, stop: bool, detail: &str) -> Reply {
        let message_id = if self.dialect == Dialect::Udf { message_id } else { 0 };
        let response =
            ExecutorResponse { message_id, error_code: code.0, error_message: text.to_owned() };
        Reply { response, stop, detail: detail.to_owned() }
    }
}

#[cfg(test)]
mod tests;
