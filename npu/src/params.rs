//! Parameters of an op as bytes of a program: little-endian words, no padding, no optional parts.
//!
//! Each op writes its own with [`ParamWriter`] and reads them with [`ParamReader`]; whatever is
//! read is checked by the op, since a program may come from anywhere.

use crate::ops::OpError;
use crate::shape::{RANK_MAX, Shape, ShapeError};

/// Writes parameters.
#[derive(Debug, Default)]
pub struct ParamWriter(Vec<u8>);

impl ParamWriter {
    /// A 32-bit number.
    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A signed 64-bit number.
    pub fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A count or size, as 64 bits.
    pub fn size(&mut self, value: usize) {
        self.0.extend_from_slice(&(value as u64).to_le_bytes());
    }

    /// Several counts or sizes; how many is not written.
    pub fn sizes(&mut self, values: &[usize]) {
        values.iter().for_each(|value| self.size(*value));
    }

    /// A 32-bit float.
    pub fn f32(&mut self, value: f32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Yes or no, as a number.
    pub fn flag(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// A shape: the number of dims, and the dims.
    pub fn shape(&mut self, shape: &Shape) {
        self.size(shape.rank());
        self.sizes(shape.dims());
    }

    /// Bytes; how many is not written.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads parameters.
#[derive(Debug)]
pub struct ParamReader<'a>(&'a [u8]);

impl<'a> ParamReader<'a> {
    /// Reads from the beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], OpError> {
        let (word, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or_else(|| OpError::params("too short for this op"))?;
        self.0 = rest;
        Ok(*word)
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// The parameters end before.
    pub fn u32(&mut self) -> Result<u32, OpError> {
        self.take().map(u32::from_le_bytes)
    }

    /// A signed 64-bit number.
    ///
    /// # Errors
    /// The parameters end before.
    pub fn i64(&mut self) -> Result<i64, OpError> {
        self.take().map(i64::from_le_bytes)
    }

    /// A count or size.
    ///
    /// # Errors
    /// The parameters end before, or the number is none of this machine's sizes.
    pub fn size(&mut self) -> Result<usize, OpError> {
        let value = self.take().map(u64::from_le_bytes)?;
        usize::try_from(value).map_err(|_| OpError::params(format!("{value} is no size here")))
    }

    /// Several counts or sizes.
    ///
    /// # Errors
    /// As [`Self::size`].
    pub fn sizes<const N: usize>(&mut self) -> Result<[usize; N], OpError> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.size()?;
        }
        Ok(values)
    }

    /// A 32-bit float.
    ///
    /// # Errors
    /// The parameters end before.
    pub fn f32(&mut self) -> Result<f32, OpError> {
        self.take().map(f32::from_le_bytes)
    }

    /// Yes or no.
    ///
    /// # Errors
    /// The parameters end before, or the number is neither.
    pub fn flag(&mut self) -> Result<bool, OpError> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(OpError::params(format!("{other} is neither 0 nor 1"))),
        }
    }

    /// A shape.
    ///
    /// # Errors
    /// The parameters end before, or the dims are no shape.
    pub fn shape(&mut self) -> Result<Shape, OpError> {
        let rank = self.size()?;
        let mut dims = [0; RANK_MAX];
        let own = dims.get_mut(..rank).ok_or(ShapeError::Rank(rank))?;
        for dim in own {
            *dim = self.size()?;
        }
        Ok(Shape::new(&dims[..rank])?)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// The parameters end before.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], OpError> {
        let split = self.0.split_at_checked(count);
        let (bytes, rest) = split.ok_or_else(|| OpError::params("too short for this op"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The end.
    ///
    /// # Errors
    /// There is more.
    pub fn finish(&self) -> Result<(), OpError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(OpError::params(format!("{} byte(s) more than this op has", self.0.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = ParamWriter::default();
        writer.u32(7);
        writer.i64(-8);
        writer.sizes(&[1, 2]);
        writer.f32(0.5);
        let bytes = writer.into_bytes();
        let mut reader = ParamReader::new(&bytes);
        assert_eq!(reader.u32(), Ok(7));
        assert_eq!(reader.i64(), Ok(-8));
        assert!(reader.finish().is_err(), "not at the end yet");
        assert_eq!(reader.sizes(), Ok([1, 2]));
        assert_eq!(reader.f32(), Ok(0.5));
        assert_eq!(reader.finish(), Ok(()));
        assert!(reader.u32().is_err());
    }
}
