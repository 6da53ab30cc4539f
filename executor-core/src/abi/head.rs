//! The 256-byte private head of an mbuf (executor-deployer §0.3, device-runtime §2.2).
//!
//! ```text
//! off size field        writer          meaning
//!   0   64 user data    feeder          opaque bytes; 96 through the ACL calls
//!  64   64 unspecified  feeder          carried through
//! 128    1 EOS          anybody         0x5A = end of sequence
//! 129   63 unspecified                  carried through
//! 192   64 MsgInfo      owner           see MsgInfo
//! ```
//! In shared memory the head is 32 relaxed 64-bit words: the owner protocol keeps writers apart,
//! and tools may read a head at any time.

/// Bytes of a head.
pub const HEAD_SIZE: usize = 256;
/// 64-bit words of a 64-byte head line; in models one word stands for its line.
pub const LINE_WORDS: usize = if cfg!(loom) { 1 } else { 8 };
/// 64-bit words of a head.
pub const HEAD_WORDS: usize = 4 * LINE_WORDS;
/// Bytes of user data that GE and UDF know.
pub const USER_DATA_SIZE: usize = 64;
/// Bytes of user data through the ACL calls.
pub const ACL_USER_DATA_SIZE: usize = 96;
/// Offset of the end-of-sequence byte.
pub const EOS_OFFSET: usize = 128;
/// Value of the end-of-sequence byte.
pub const EOS_VALUE: u8 = 0x5A;
/// Offset of `MsgInfo`.
pub const MSG_INFO_OFFSET: usize = 192;

static_assertions::const_assert_eq!(MSG_INFO_OFFSET + size_of::<super::MsgInfo>(), HEAD_SIZE);
#[cfg(not(loom))]
static_assertions::const_assert_eq!(HEAD_WORDS * 8, HEAD_SIZE);
