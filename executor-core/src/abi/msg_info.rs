//! `MsgInfo`: the last 64 bytes of an mbuf head (executor-deployer §0.3, udf §2.2).
//!
//! ```text
//! off size field          meaning
//!   0    8 trans_id       transaction id, user data starts at 1; 0 = "assign for me"
//!   8    2 version        carried through
//!  10    2 msg_type       see MsgType
//!  12    4 ret_code       0 = good (i32)
//!  16    8 start_time     set by the user, unit is the user's
//!  24    8 end_time
//!  32    4 flags          see FlowFlags
//!  36    1 data_flag      see DataFlag
//!  37    3 reserved
//!  40    4 worker_id      i32
//!  44    4 step_id        u32
//!  48    8 reserved
//!  56    4 data_label     alignment sub-key
//!  60    4 route_label    instance routing
//! ```

use bitflags::bitflags;
use static_assertions::{assert_eq_size, const_assert_eq};

/// What the payload of an mbuf is. A newtype: unknown values are values (udf §1.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct MsgType(pub u16);

impl MsgType {
    /// One tensor behind a [`super::RuntimeTensorDesc`].
    pub const TENSOR_DATA: MsgType = MsgType(0);
    /// Bytes without a descriptor.
    pub const RAW_MSG: MsgType = MsgType(1);
    /// Several tensors, each behind its own descriptor. On a message queue: finalize.
    pub const TENSOR_LIST: MsgType = MsgType(2);
    /// End of a message server's service (executor-deployer §0.1); same number as a tensor list.
    pub const FINALIZE: MsgType = MsgType(2);
    /// First value for user-defined serialisers.
    pub const USER_DEFINE_START: MsgType = MsgType(1024);
}

bitflags! {
    /// Flow flags that a user sets on a message (udf §1.3).
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FlowFlags: u32 {
        /// End of sequence.
        const EOS = 1;
        /// End of segment.
        const SEG = 2;
    }
}

bitflags! {
    /// `data_flag` bits.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct DataFlag: u8 {
        /// The message carries no payload.
        const NULL_DATA = 1;
        /// The user supplied the trans_id.
        const CUSTOM_TRANS_ID = 2;
    }
}

/// The 64 bytes at offset 192 of the mbuf head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct MsgInfo {
    /// Transaction id; one per feed, 0 = not assigned.
    pub trans_id: u64,
    /// Carried through.
    pub version: u16,
    /// Kind of payload.
    pub msg_type: MsgType,
    /// 0 or a code, see [`crate::error::Code::from_ret_code`].
    pub ret_code: i32,
    /// Start time in the user's unit.
    pub start_time: u64,
    /// End time in the user's unit.
    pub end_time: u64,
    /// [`FlowFlags`] bits.
    pub flags: u32,
    /// [`DataFlag`] bits.
    pub data_flag: u8,
    /// Zero.
    pub reserved0: [u8; 3],
    /// Placeholder of the specification.
    pub worker_id: i32,
    /// Dump step.
    pub step_id: u32,
    /// Zero.
    pub reserved1: [u8; 8],
    /// Alignment sub-key; 0 = none.
    pub data_label: u32,
    /// Instance routing; 0 = none.
    pub route_label: u32,
}

assert_eq_size!(MsgInfo, [u8; 64]);
const_assert_eq!(core::mem::align_of::<MsgInfo>(), 8);
const_assert_eq!(core::mem::offset_of!(MsgInfo, trans_id), 0);
const_assert_eq!(core::mem::offset_of!(MsgInfo, version), 8);
const_assert_eq!(core::mem::offset_of!(MsgInfo, msg_type), 10);
const_assert_eq!(core::mem::offset_of!(MsgInfo, ret_code), 12);
const_assert_eq!(core::mem::offset_of!(MsgInfo, start_time), 16);
const_assert_eq!(core::mem::offset_of!(MsgInfo, end_time), 24);
const_assert_eq!(core::mem::offset_of!(MsgInfo, flags), 32);
const_assert_eq!(core::mem::offset_of!(MsgInfo, data_flag), 36);
const_assert_eq!(core::mem::offset_of!(MsgInfo, reserved0), 37);
const_assert_eq!(core::mem::offset_of!(MsgInfo, worker_id), 40);
const_assert_eq!(core::mem::offset_of!(MsgInfo, step_id), 44);
const_assert_eq!(core::mem::offset_of!(MsgInfo, reserved1), 48);
const_assert_eq!(core::mem::offset_of!(MsgInfo, data_label), 56);
const_assert_eq!(core::mem::offset_of!(MsgInfo, route_label), 60);

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

#[allow(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn low(word: u64) -> u32 {
    word as u32
}

fn high(word: u64) -> u32 {
    low(word >> 32)
}

impl MsgInfo {
    /// The eight words as they stand in the head.
    #[must_use]
    pub fn to_words(&self) -> [u64; 8] {
        let kind = u32::from(self.version) | (u32::from(self.msg_type.0) << 16);
        let [r0, r1, r2] = self.reserved0;
        [
            self.trans_id,
            pair(kind, self.ret_code.cast_unsigned()),
            self.start_time,
            self.end_time,
            pair(self.flags, u32::from_le_bytes([self.data_flag, r0, r1, r2])),
            pair(self.worker_id.cast_unsigned(), self.step_id),
            u64::from_le_bytes(self.reserved1),
            pair(self.data_label, self.route_label),
        ]
    }

    /// Reads the eight words of a head.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "fields are cut out of their words")]
    pub fn from_words(words: [u64; 8]) -> Self {
        let [trans_id, kind, start_time, end_time, flags, worker, reserved1, labels] = words;
        let [data_flag, r0, r1, r2] = high(flags).to_le_bytes();
        MsgInfo {
            trans_id,
            version: kind as u16,
            msg_type: MsgType((kind >> 16) as u16),
            ret_code: high(kind).cast_signed(),
            start_time,
            end_time,
            flags: low(flags),
            data_flag,
            reserved0: [r0, r1, r2],
            worker_id: low(worker).cast_signed(),
            step_id: high(worker),
            reserved1: reserved1.to_le_bytes(),
            data_label: low(labels),
            route_label: high(labels),
        }
    }

    /// True when the null-data bit is set.
    #[must_use]
    pub fn is_null_data(&self) -> bool {
        self.data_flag & DataFlag::NULL_DATA.bits() != 0
    }

    /// True when the user supplied the id.
    #[must_use]
    pub fn is_custom_trans_id(&self) -> bool {
        self.data_flag & DataFlag::CUSTOM_TRANS_ID.bits() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{MsgInfo, MsgType};

    fn sample() -> MsgInfo {
        MsgInfo {
            trans_id: 0x0102_0304_0506_0708,
            version: 0x1112,
            msg_type: MsgType(0x2122),
            ret_code: -2,
            start_time: 3,
            end_time: 4,
            flags: 0x3132_3334,
            data_flag: 3,
            reserved0: [7, 8, 9],
            worker_id: -1,
            step_id: 0x4142_4344,
            reserved1: [1, 2, 3, 4, 5, 6, 7, 8],
            data_label: 0x5152_5354,
            route_label: 0x6162_6364,
        }
    }

    #[test]
    fn words_round_trip() {
        assert_eq!(MsgInfo::from_words(sample().to_words()), sample());
    }

    #[test]
    fn golden_bytes() {
        let mut bytes = [0u8; 64];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(sample().to_words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let mut want = [0u8; 64];
        want[0..8].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        want[8..16].copy_from_slice(&[0x12, 0x11, 0x22, 0x21, 0xFE, 0xFF, 0xFF, 0xFF]);
        want[16] = 3;
        want[24] = 4;
        want[32..40].copy_from_slice(&[0x34, 0x33, 0x32, 0x31, 3, 7, 8, 9]);
        want[40..48].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0xFF, 0x44, 0x43, 0x42, 0x41]);
        want[48..56].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        want[56..64].copy_from_slice(&[0x54, 0x53, 0x52, 0x51, 0x64, 0x63, 0x62, 0x61]);
        assert_eq!(bytes, want);
    }
}
