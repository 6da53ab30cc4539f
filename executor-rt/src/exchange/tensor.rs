//! Tensors out of a queue: copied to an aligned buffer, or left in the mbuf that the caller then
//! owns.
//!
//! Checks behind those of a data dequeue (executor-deployer §4.4): null data → no tensor;
//! descriptor present; rank 0..=32 (`UNSUPPORTED`); no original shape → a copy of the shape;
//! `data_size` fits the message.

use executor_core::abi::{RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;

use super::dequeue::Opened;
use super::{ControlInfo, Exchange, Refused, Result};
use crate::payload;

/// Alignment of a copied tensor's data.
const ALIGN: usize = 64;

/// A tensor copied out of its message.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its descriptor; `original_shape` is always set.
    pub desc: RuntimeTensorDesc,
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Tensor {
    fn copy_of(desc: &RuntimeTensorDesc, data: &[u8]) -> Tensor {
        let mut bytes = vec![0; data.len() + ALIGN - 1];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN - 1);
        if let Some(to) = bytes.get_mut(start..start + data.len()) {
            to.copy_from_slice(data);
        }
        Tensor { desc: *desc, bytes, start, len: data.len() }
    }

    /// The data, on a 64-byte boundary.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or(&[])
    }
}

/// A tensor that is still in its message. Give the mbuf back (or enqueue it) when done.
#[derive(Debug)]
pub struct MbufTensor {
    /// Its descriptor; `original_shape` is always set.
    pub desc: RuntimeTensorDesc,
    /// The message.
    pub mbuf: Mbuf,
}

/// What a tensor dequeue found.
#[derive(Debug)]
pub enum Received<T> {
    /// A tensor.
    Tensor(T),
    /// A message without data.
    Null,
    /// The end of a sequence.
    EndOfSequence,
}

impl Exchange<'_> {
    /// Takes the next message and copies its tensor out.
    ///
    /// # Errors
    /// As [`Exchange::dequeue`]; `UNSUPPORTED` for more than 32 dimensions; `FAILED` when
    /// descriptor or data do not fit the message.
    pub fn dequeue_tensor(
        &mut self,
        queue: QueueId,
        control: &mut ControlInfo,
    ) -> Result<Received<Tensor>> {
        Ok(match self.dequeue_mbuf_tensor(queue, control)? {
            Received::Tensor(MbufTensor { desc, mbuf }) => {
                let tensor = Tensor::copy_of(&desc, self.tensor_data(&desc, &mbuf));
                self.free(mbuf);
                Received::Tensor(tensor)
            }
            Received::Null => Received::Null,
            Received::EndOfSequence => Received::EndOfSequence,
        })
    }

    /// Takes the next message and leaves its tensor in place; no copy.
    ///
    /// # Errors
    /// As [`Exchange::dequeue_tensor`].
    pub fn dequeue_mbuf_tensor(
        &mut self,
        queue: QueueId,
        control: &mut ControlInfo,
    ) -> Result<Received<MbufTensor>> {
        let mbuf = self.dequeue_mbuf(queue, control.timeout_ms)?;
        let checked = self.check_tensor(queue, &mbuf, control);
        match checked {
            Ok(Received::Tensor(desc)) => Ok(Received::Tensor(MbufTensor { desc, mbuf })),
            other => {
                self.free(mbuf);
                Ok(match other? {
                    Received::EndOfSequence => Received::EndOfSequence,
                    _ => Received::Null,
                })
            }
        }
    }

    /// The data of a tensor that is still in its message.
    #[must_use]
    pub fn tensor_data<'m>(&self, desc: &RuntimeTensorDesc, mbuf: &'m Mbuf) -> &'m [u8] {
        let bytes = payload::bytes_of(self.worker.of(mbuf), mbuf);
        let len = usize::try_from(desc.data_size).unwrap_or(usize::MAX);
        bytes.get(TENSOR_DESC_SIZE..).and_then(|data| data.get(..len)).unwrap_or(&[])
    }

    fn check_tensor(
        &self,
        queue: QueueId,
        mbuf: &Mbuf,
        control: &mut ControlInfo,
    ) -> Result<Received<RuntimeTensorDesc>> {
        let refused = |code, why| Refused::new(code, Some(queue), why);
        if self.open_message(queue, mbuf, control)? == Opened::EndOfSequence {
            return Ok(Received::EndOfSequence);
        }
        if control.msg_info.is_some_and(|info| info.is_null_data()) {
            return Ok(Received::Null);
        }
        let message = self.worker.of(mbuf);
        let desc = payload::tensor_desc(&message);
        let why = "the message is shorter than a tensor descriptor";
        let mut desc = desc.ok_or(refused(Code::FAILED, why))?;
        let unsupported = refused(Code::UNSUPPORTED, "a tensor has 0 to 32 dimensions");
        let shape = desc.shape;
        desc.dims().ok_or(unsupported)?;
        match desc.original_shape.first() {
            Some(0) => desc.original_shape = shape,
            Some(1..=32) => {}
            _ => return Err(unsupported),
        }
        if desc.data_size > message.data_len().saturating_sub(TENSOR_DESC_SIZE as u64) {
            return Err(refused(Code::FAILED, "data_size is larger than the message"));
        }
        Ok(Received::Tensor(desc))
    }
}
