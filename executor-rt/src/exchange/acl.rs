//! What the polling ACL wrappers report (device-runtime §2.3): FULL or EMPTY at the end of the
//! timeout is
//! `ACL_FAILURE`, anything else is reported at once. They poll every millisecond; this sleeps until
//! woken or until the same deadline. Also the user area of a head as ACL callers see it: 96 bytes.

use executor_core::abi::head::ACL_USER_DATA_SIZE;
use executor_core::error::Code;
use executor_core::mbuf::{Mbuf, MbufRef};
use executor_core::owner::QueueId;

use super::{Exchange, NotEnqueued, Refused, Result};

fn as_polled(refused: Refused) -> Refused {
    match refused.code {
        Code::QUEUE_FULL => Refused {
            code: Code::ACL_FAILURE,
            why: "the queue stayed full until the timeout",
            ..refused
        },
        Code::QUEUE_EMPTY => Refused {
            code: Code::ACL_FAILURE,
            why: "the queue stayed empty until the timeout",
            ..refused
        },
        _ => refused,
    }
}

impl Exchange<'_> {
    /// `acltdtEnqueue`.
    ///
    /// # Errors
    /// [`NotEnqueued`] gives the mbuf back: `ACL_FAILURE` at the timeout, other codes at once.
    pub fn acl_enqueue(
        &mut self,
        queue: QueueId,
        mbuf: Mbuf,
        timeout_ms: i32,
    ) -> core::result::Result<(), NotEnqueued> {
        self.enqueue_mbuf(queue, mbuf, timeout_ms)
            .map_err(|e| NotEnqueued { refused: as_polled(e.refused), ..e })
    }

    /// `acltdtDequeue`.
    ///
    /// # Errors
    /// `ACL_FAILURE` at the timeout, other codes at once.
    pub fn acl_dequeue(&mut self, queue: QueueId, timeout_ms: i32) -> Result<Mbuf> {
        self.dequeue_mbuf(queue, timeout_ms).map_err(as_polled)
    }
}

fn in_user_area(offset: usize, len: usize) -> Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= ACL_USER_DATA_SIZE) {
        return Ok(());
    }
    Err(Refused::new(Code::INVALID_VALUE, None, "the user area of a head has 96 bytes"))
}

/// `acltdtSetBufUserData`: writes into the first 96 bytes of the head.
///
/// # Errors
/// `INVALID_VALUE` for bytes past them.
pub fn write_user_data(message: &MbufRef<'_>, offset: usize, bytes: &[u8]) -> Result<()> {
    in_user_area(offset, bytes.len())?;
    message.write_head(offset, bytes);
    Ok(())
}

/// `acltdtGetBufUserData`: reads from the first 96 bytes of the head.
///
/// # Errors
/// `INVALID_VALUE` for bytes past them.
pub fn read_user_data(message: &MbufRef<'_>, offset: usize, bytes: &mut [u8]) -> Result<()> {
    in_user_area(offset, bytes.len())?;
    let head = message.head_bytes();
    bytes.copy_from_slice(head.get(offset..offset + bytes.len()).unwrap_or(&[]));
    Ok(())
}
