//! Bytes seen as elements, and back: the only place where this crate looks at memory by another
//! type. Nothing is copied; a wrong alignment or length is `None`, never a wrong slice.
#![allow(unsafe_code, reason = "views of checked bytes as elements, without a copy")]

use crate::half::{Bf16, F16};

/// A type for which every bit pattern is a value and that has no padding.
///
/// Implemented here only, for the types in this file.
pub trait Plain: Copy + Send + Sync + sealed::Sealed + 'static {}

mod sealed {
    /// Keeps [`super::Plain`] to the types that were looked at.
    pub trait Sealed {}
}

macro_rules! plain {
    ($($name:ty),+) => { $(impl sealed::Sealed for $name {} impl Plain for $name {})+ };
}

plain!(u8, u16, u32, u64, usize, i8, i16, i32, i64, i128, f32, f64, F16, Bf16, Block);

/// 64 bytes at an address that is a multiple of 64.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Block(pub(crate) [u8; 64]);

/// The bytes as elements; `None` unless address and length fit.
pub(crate) fn elements<T: Plain>(bytes: &[u8]) -> Option<&[T]> {
    // SAFETY: T is `Plain`, so any initialised bytes are valid values of it; `align_to` itself
    // keeps length and alignment right.
    let (head, body, tail) = unsafe { bytes.align_to::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(body)
}

/// The bytes as elements that can be written; `None` unless address and length fit.
pub(crate) fn elements_mut<T: Plain>(bytes: &mut [u8]) -> Option<&mut [T]> {
    // SAFETY: T is `Plain`, so any initialised bytes are valid values of it, and any value of it
    // is valid bytes; `align_to_mut` itself keeps length and alignment right.
    let (head, body, tail) = unsafe { bytes.align_to_mut::<T>() };
    (head.is_empty() && tail.is_empty()).then_some(body)
}

/// The elements as bytes.
pub(crate) fn bytes_of<T: Plain>(elements: &[T]) -> &[u8] {
    // SAFETY: T is `Plain`: no padding, so every byte is initialised; u8 has alignment 1, so
    // nothing is left over.
    let (_, bytes, _) = unsafe { elements.align_to::<u8>() };
    bytes
}

/// The elements as bytes that can be written.
pub(crate) fn bytes_of_mut<T: Plain>(elements: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes_of`; every bit pattern that is written is a value of T.
    let (_, bytes, _) = unsafe { elements.align_to_mut::<u8>() };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_need_a_fitting_address_and_length() {
        let mut values = [1.5f32, -2.0, 3.0];
        let bytes = bytes_of(&values);
        assert_eq!(bytes.len(), 12);
        assert_eq!(elements::<f32>(bytes), Some(&[1.5, -2.0, 3.0][..]));
        assert_eq!(elements::<f32>(&bytes[1..9]), None, "address");
        assert_eq!(elements::<f32>(&bytes[4..11]), None, "length");
        assert_eq!(elements::<f32>(&bytes[4..4]).map(<[f32]>::len), Some(0));
        elements_mut::<f32>(bytes_of_mut(&mut values)).unwrap()[0] = 7.0;
        assert_eq!(values, [7.0, -2.0, 3.0]);
    }
}
