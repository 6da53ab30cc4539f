//! What came out of an executor.

use executor_core::abi::MsgInfo;
use executor_core::error::Code;

/// One message of an output.
#[derive(Debug)]
pub struct Fetched {
    /// Its message information.
    pub info: MsgInfo,
    /// Dims of its tensor.
    pub dims: Vec<i64>,
    /// Whether its head has the end-of-sequence byte.
    pub ends_sequence: bool,
    /// What follows the descriptor.
    pub values: Vec<u8>,
    /// First word of the user's part of its head: the id that was fed.
    pub user: u64,
    /// Slot of its data.
    pub home: u32,
}

impl Fetched {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.info.trans_id
    }

    /// Its code.
    #[must_use]
    pub fn code(&self) -> Code {
        Code::from_ret_code(self.info.ret_code)
    }

    /// The values as i64.
    #[must_use]
    pub fn ints(&self) -> Vec<i64> {
        self.values.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
    }

    /// The values as f32.
    #[must_use]
    pub fn floats(&self) -> Vec<f32> {
        self.values.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// Checks that it is data for this id.
    pub fn assert_data(&self, id: u64, values: &[f32]) {
        assert_eq!((self.id(), self.code(), self.user), (id, Code::SUCCESS, id), "{self:?}");
        assert!(!self.info.is_null_data(), "{self:?}");
        assert_eq!(self.floats(), values, "{self:?}");
    }

    /// Checks that it is an answer without data.
    pub fn assert_answer(&self, id: u64, code: Code) {
        assert_eq!((self.id(), self.code()), (id, code), "{self:?}");
        assert!(self.info.is_null_data(), "{self:?}");
        assert_eq!(self.user, id, "head of the input");
    }
}
