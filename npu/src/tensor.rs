//! What a tensor is to an op: type and shape beside bytes that belong to somebody else.

use std::fmt;

use crate::DataType;
use crate::cast::{self, Plain};
use crate::shape::{Shape, ShapeError};

/// Type and shape of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorInfo {
    /// Element type, by the numbers that messages use.
    pub dtype: DataType,
    /// Dims.
    pub shape: Shape,
}

impl TensorInfo {
    /// Of a type and a shape.
    #[must_use]
    pub const fn new(dtype: DataType, shape: Shape) -> Self {
        Self { dtype, shape }
    }

    /// Of a type and dims as messages and files carry them.
    ///
    /// # Errors
    /// What is wrong with the dims.
    pub fn from_i64(dtype: DataType, dims: &[i64]) -> Result<Self, ShapeError> {
        Ok(Self { dtype, shape: Shape::from_i64(dims)? })
    }

    /// Bytes of the tensor; 0 for a type that no op of this crate has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shape.elements() * element_size(self.dtype).unwrap_or(0)
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", type_name(self.dtype), self.shape)
    }
}

/// The name of a type, also of one that nobody knows.
#[must_use]
pub fn type_name(dtype: DataType) -> String {
    dtype.name().map_or_else(|| format!("type {}", dtype.0), str::to_owned)
}

/// Bytes of an element of a type that ops of this crate have; `None` for others.
#[must_use]
pub fn element_size(dtype: DataType) -> Option<usize> {
    match dtype {
        DataType::FLOAT | DataType::INT32 => Some(4),
        DataType::INT64 => Some(8),
        _ => None,
    }
}

/// An element type with arithmetic; whole numbers wrap around, as the oracle's do.
pub trait Element: Plain + PartialOrd + fmt::Debug {
    /// Its number.
    const TYPE: DataType;
    /// Zero.
    const ZERO: Self;
    /// The sum.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// The product.
    #[must_use]
    fn times(self, other: Self) -> Self;
}

macro_rules! element {
    ($($name:ty = $number:ident, $zero:literal, $plus:ident, $times:ident;)+) => {
        $(impl Element for $name {
            const TYPE: DataType = DataType::$number;
            const ZERO: Self = $zero;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.$plus(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.$times(other)
            }
        })+
    };
}

use std::ops::{Add as _, Mul as _};

element! {
    f32 = FLOAT, 0.0, add, mul;
    i32 = INT32, 0, wrapping_add, wrapping_mul;
    i64 = INT64, 0, wrapping_add, wrapping_mul;
}

/// Why a kernel could not run; a checked program never causes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// A tensor's memory does not fit its type: address or length.
    Memory,
    /// The kernel has no code for this type.
    Type(DataType),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("a tensor's memory does not fit its type"),
            Self::Type(dtype) => write!(f, "no kernel for {}", type_name(*dtype)),
        }
    }
}

impl std::error::Error for Fault {}

/// The inputs of one kernel call.
pub trait Inputs {
    /// How many there are.
    fn count(&self) -> usize;
    /// Type and shape of one. Panics when there are fewer.
    fn info(&self, index: usize) -> &TensorInfo;
    /// Bytes of one: exactly as many as its type and shape say.
    fn bytes(&self, index: usize) -> &[u8];
}

impl<'a> dyn Inputs + 'a {
    /// The elements of one input.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn elements<T: Element>(&self, index: usize) -> Result<&[T], Fault> {
        cast::elements(self.bytes(index)).ok_or(Fault::Memory)
    }

    /// The elements of an input that may be left out.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn optional<T: Element>(&self, index: usize) -> Result<Option<&[T]>, Fault> {
        if index < self.count() { self.elements(index).map(Some) } else { Ok(None) }
    }

    /// The dims of one input.
    #[must_use]
    pub fn dims(&self, index: usize) -> &[usize] {
        self.info(index).shape.dims()
    }
}

/// What one kernel call writes.
#[derive(Debug)]
pub struct Output<'a> {
    /// Type and shape of the result.
    pub info: &'a TensorInfo,
    /// Bytes of the result: exactly as many as type and shape say. Every one is written.
    pub bytes: &'a mut [u8],
    /// Memory that the op asked for by `scratch_bytes`; undefined before and after.
    pub scratch: &'a mut [u8],
}

impl Output<'_> {
    /// The elements to write.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn elements<T: Element>(&mut self) -> Result<&mut [T], Fault> {
        cast::elements_mut(self.bytes).ok_or(Fault::Memory)
    }

    /// The elements to write, and the scratch memory.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn elements_and_scratch<T: Element>(&mut self) -> Result<(&mut [T], &mut [u8]), Fault> {
        let elements = cast::elements_mut(self.bytes).ok_or(Fault::Memory)?;
        Ok((elements, self.scratch))
    }
}

/// Calls `$body` with `$T` as the element type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::DataType::FLOAT => {
                type $T = f32;
                $body
            }
            $crate::DataType::INT32 => {
                type $T = i32;
                $body
            }
            $crate::DataType::INT64 => {
                type $T = i64;
                $body
            }
            other => Err($crate::tensor::Fault::Type(other)),
        }
    };
}
pub(crate) use with_element;

/// A list of tensors in memory as the inputs of a call: for tests and for folding.
#[derive(Debug)]
pub struct TensorList<'a>(pub &'a [(TensorInfo, &'a [u8])]);

impl Inputs for TensorList<'_> {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn info(&self, index: usize) -> &TensorInfo {
        &self.0[index].0
    }

    fn bytes(&self, index: usize) -> &[u8] {
        self.0[index].1
    }
}
