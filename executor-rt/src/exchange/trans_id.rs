//! Which trans_id a message gets: one count for each queue (executor-deployer §4.3).
//!
//! | given | result |
//! |---|---|
//! | not custom, or 0 | last + 1; refused when last is `u64::MAX - 1` |
//! | `u64::MAX` | refused |
//! | n | n, when it is not smaller than last |
//!
//! The count moves only when the message was enqueued: a retry after FULL gets the same id.

use executor_core::abi::MsgInfo;
use executor_core::error::Code;

/// Where a message comes from: the client gather takes any id that is not 0 as given by the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Only the custom bit makes an id count.
    Local,
    /// Any id that is not 0 counts.
    ClientGather,
}

/// The id of the next message of a queue whose last id was `last`.
///
/// # Errors
/// `PARAM_INVALID` for `u64::MAX` or an id smaller than `last`, `FAILED` when the ids are used up;
/// with why.
pub fn next(last: u64, info: &MsgInfo, source: Source) -> Result<u64, (Code, &'static str)> {
    let counts = info.is_custom_trans_id() || source == Source::ClientGather;
    match if counts { info.trans_id } else { 0 } {
        0 if last >= u64::MAX - 1 => Err((Code::FAILED, "every trans_id is used up")),
        0 => Ok(last + 1),
        u64::MAX => Err((Code::PARAM_INVALID, "trans_id is 2^64 - 1, expected a smaller one")),
        id if id < last => {
            Err((Code::PARAM_INVALID, "trans_id is smaller than the last of this queue"))
        }
        id => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, MsgInfo, Source, next};

    fn custom(trans_id: u64) -> MsgInfo {
        MsgInfo { trans_id, data_flag: 2, ..MsgInfo::default() }
    }

    #[test]
    fn every_row_of_the_table() {
        let plain = MsgInfo { trans_id: 100, ..MsgInfo::default() };
        assert_eq!(next(0, &plain, Source::Local), Ok(1));
        assert_eq!(next(0, &plain, Source::ClientGather), Ok(100));
        assert_eq!(next(7, &custom(0), Source::Local), Ok(8));
        assert_eq!(next(7, &custom(7), Source::Local), Ok(7));
        assert_eq!(next(7, &custom(6), Source::Local).unwrap_err().0, Code::PARAM_INVALID);
        assert_eq!(next(7, &custom(u64::MAX), Source::Local).unwrap_err().0, Code::PARAM_INVALID);
        assert_eq!(next(u64::MAX - 1, &custom(0), Source::Local).unwrap_err().0, Code::FAILED);
        assert_eq!(next(u64::MAX - 2, &plain, Source::Local), Ok(u64::MAX - 1));
    }
}
