//! From codes to process exit codes, in one table.
//!
//! An exit code has eight bits. A flow function's codes keep their low byte, because the
//! specification promises it (164000 is seen as 160); what has no low byte becomes
//! [`EXIT_FAILURE`], so that a failure never looks like success. The reference exits
//! with 0 after a run-time failure; we keep the code (udf §7.3 lists that as worth fixing), so the
//! restart policy can see it.

use executor_core::error::Code;

use crate::server::Dialect;

/// Exit code of success.
pub const EXIT_SUCCESS: u8 = 0;
/// Exit code of a failure without a better number.
pub const EXIT_FAILURE: u8 = 1;

/// Codes whose exit code is not simply their low byte.
///
/// | code | exit | why |
/// |---|---|---|
/// | FAILED (0xFFFFFFFF) | 1 | 255 is what shells use for other things |
pub const EXCEPTIONS: &[(Code, u8)] = &[(Code::FAILED, EXIT_FAILURE)];

/// The exit code of an executor that ends with `code`.
///
/// Built-in executors know 0 and 1 only (executor-deployer §1.1); `udf-executor` keeps the low byte
/// of the code (udf §3.2).
#[must_use]
pub fn exit_code(dialect: Dialect, code: Code) -> u8 {
    if code.is_success() {
        return EXIT_SUCCESS;
    }
    if dialect == Dialect::BuiltIn {
        return EXIT_FAILURE;
    }
    if let Some((_, exit)) = EXCEPTIONS.iter().find(|(known, _)| *known == code) {
        return *exit;
    }
    match code.0.to_le_bytes()[0] {
        EXIT_SUCCESS => EXIT_FAILURE,
        low => low,
    }
}

/// The known codes that a UDF executor's exit code may stand for, for messages of a supervisor.
pub fn candidates(exit: u8) -> impl Iterator<Item = Code> {
    Code::ALL
        .iter()
        .map(|(code, ..)| *code)
        .filter(move |code| !code.is_success() && exit_code(Dialect::Udf, *code) == exit)
}

#[cfg(test)]
mod tests {
    use super::{candidates, exit_code};
    use crate::server::Dialect;
    use executor_core::error::Code;

    #[test]
    fn low_byte_of_flow_func_codes() {
        for (code, exit) in [
            (Code::SUCCESS, 0),
            (Code::FLOW_FUNC_PARAM_INVALID, 160),
            (Code::FLOW_FUNC_FAILED, 32),
            (Code::FLOW_FUNC_DRV_ERROR, 132),
            (Code::UDF_PANIC, 3),
            (Code::FAILED, 1),
            (Code(9_900_000), 224),
            (Code(512), 1),
        ] {
            assert_eq!(exit_code(Dialect::Udf, code), exit, "{code:?}");
        }
        assert_eq!(exit_code(Dialect::BuiltIn, Code::PARAM_INVALID), 1);
        assert_eq!(exit_code(Dialect::BuiltIn, Code::SUCCESS), 0);
    }

    #[test]
    fn no_failure_looks_like_success() {
        for (code, ..) in Code::ALL.iter().filter(|(code, ..)| !code.is_success()) {
            assert_ne!(exit_code(Dialect::Udf, *code), 0, "{code:?}");
        }
        assert!(candidates(160).any(|code| code == Code::FLOW_FUNC_PARAM_INVALID));
    }
}
