//! From a decoded request to an action, or to a refusal with its code.

use executor_core::error::Code;

use super::{Action, Clear, Dialect, ExecutorRequest, Kind, TEXT_NO_CONTENT};
use crate::proto::deployer::{CLEAR_RESTART, CLEAR_STOP, EXCEPTION_ADD, EXCEPTION_DELETE};
use crate::proto::{
    Body, ClearModelRequest, DataflowExceptionNotifyRequest, EXCEPTION_CONTEXT_MAX,
    ExecutorRequestType, dispatch,
};

/// Why a request is not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which of a UDF's reply texts fits.
    pub kind: Kind,
    /// What the sender gets.
    pub code: Code,
    /// What was found and what was expected.
    pub text: String,
}

pub(super) fn check(dialect: Dialect, request: ExecutorRequest) -> Result<(Kind, Action), Refusal> {
    let body = dispatch(&request).map_err(|code| no_body(dialect, &request, code))?;
    let builtin_only = |name: &str| match dialect {
        Dialect::BuiltIn => Ok(()),
        Dialect::Udf => Err(Refusal {
            kind: Kind::Unknown,
            code: Code::FLOW_FUNC_NOT_SUPPORT,
            text: format!("a udf executor takes clear and exception requests, found {name}"),
        }),
    };
    match body {
        Body::Load(load) => {
            builtin_only("load")?;
            Ok((Kind::Unknown, Action::Load(load.clone())))
        }
        Body::Unload(unload) => {
            builtin_only("unload")?;
            Ok((Kind::Unknown, Action::Unload(unload)))
        }
        Body::SyncVar(bytes) => {
            builtin_only("variable set-up")?;
            Ok((Kind::Unknown, Action::SyncVar(bytes.to_vec())))
        }
        Body::Profiling(profiling) => {
            builtin_only("profiling")?;
            Ok((Kind::Unknown, Action::Profiling(profiling.clone())))
        }
        Body::Clear(clear) => check_clear(dialect, clear),
        Body::Exception(exception) => check_exception(dialect, exception),
    }
}

fn no_body(dialect: Dialect, request: &ExecutorRequest, code: Code) -> Refusal {
    let notify = request.r#type == i32::from(ExecutorRequestType::Notify);
    match dialect {
        Dialect::BuiltIn => Refusal { kind: Kind::Unknown, code, text: TEXT_NO_CONTENT.to_owned() },
        // A notify belongs to the start-up of NPU-scheduled functions; later it is operator 0.
        Dialect::Udf if notify => Refusal {
            kind: Kind::Other(0),
            code: Code::FLOW_FUNC_FAILED,
            text: "notify outside of the start-up of an NPU-scheduled function".to_owned(),
        },
        Dialect::Udf => Refusal {
            kind: Kind::Unknown,
            code: Code::FLOW_FUNC_FAILED,
            text: TEXT_NO_CONTENT.to_owned(),
        },
    }
}

fn check_clear(dialect: Dialect, clear: ClearModelRequest) -> Result<(Kind, Action), Refusal> {
    let ClearModelRequest { model_id, clear_msg_type } = clear;
    match clear_msg_type {
        CLEAR_STOP => Ok((Kind::Suspend, Action::Clear { model_id, clear: Clear::Stop })),
        CLEAR_RESTART => Ok((Kind::Recover, Action::Clear { model_id, clear: Clear::Restart })),
        other => Err(Refusal {
            kind: Kind::Other(other),
            code: by_dialect(dialect, Code::FAILED, Code::FLOW_FUNC_FAILED),
            text: format!("clear_msg_type {other} is invalid, expected 1 (stop) or 2 (restart)"),
        }),
    }
}

fn check_exception(
    dialect: Dialect,
    exception: &DataflowExceptionNotifyRequest,
) -> Result<(Kind, Action), Refusal> {
    let refuse = |code, text| Err(Refusal { kind: Kind::Exception, code, text });
    let Some(notify) = &exception.exception_notify else {
        return refuse(Code::BAD_MESSAGE, "exception request without its exception".to_owned());
    };
    if notify.r#type != EXCEPTION_ADD && notify.r#type != EXCEPTION_DELETE {
        let code = by_dialect(dialect, Code::FAILED, Code::FLOW_FUNC_FAILED);
        let found = notify.r#type;
        return refuse(code, format!("exception type {found}, expected 0 (add) or 1 (delete)"));
    }
    let size = notify.exception_context.len();
    if size > EXCEPTION_CONTEXT_MAX {
        let code = by_dialect(dialect, Code::PARAM_INVALID, Code::FLOW_FUNC_PARAM_INVALID);
        let limit = EXCEPTION_CONTEXT_MAX;
        return refuse(code, format!("exception context of {size} bytes, at most {limit} allowed"));
    }
    Ok((Kind::Exception, Action::Exception(exception.clone())))
}

const fn by_dialect(dialect: Dialect, builtin: Code, udf: Code) -> Code {
    match dialect {
        Dialect::BuiltIn => builtin,
        Dialect::Udf => udf,
    }
}
