//! What a tensor is to an op: type and shape beside bytes that belong to somebody else.

use std::fmt;

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::cast::{self, Plain};
pub use crate::element::Element;
use crate::numbers::{Numbers, NumbersMut, Wide};
use crate::ops::Op;
use crate::shape::{Shape, ShapeError};
use crate::team::Team;

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

/// Most outputs of a task.
pub const OUTPUTS_MAX: usize = 32;

/// Bytes of an element of a type that ops of this crate have; `None` for others.
#[must_use]
pub fn element_size(dtype: DataType) -> Option<usize> {
    match dtype {
        DataType::BOOL | DataType::INT8 | DataType::UINT8 => Some(1),
        DataType::FLOAT16 | DataType::BF16 | DataType::INT16 | DataType::UINT16 => Some(2),
        DataType::FLOAT | DataType::INT32 | DataType::UINT32 => Some(4),
        DataType::DOUBLE | DataType::INT64 | DataType::UINT64 => Some(8),
        _ => None,
    }
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
    /// The weights as [`crate::ops::blocked::Fours`] packs them, where runs read them.
    fn fours(&self) -> Option<&[u8]> {
        None
    }
}

impl<'a> dyn Inputs + 'a {
    /// The elements of one input.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn elements<T: Plain>(&self, index: usize) -> Result<&[T], Fault> {
        cast::elements(self.bytes(index)).ok_or(Fault::Memory)
    }

    /// The elements of an input that may be left out.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn optional<T: Plain>(&self, index: usize) -> Result<Option<&[T]>, Fault> {
        if index < self.count() { self.elements(index).map(Some) } else { Ok(None) }
    }

    /// The indices in one input, of either type.
    ///
    /// # Errors
    /// The memory does not fit the type, or there are no indices.
    pub fn indices(&self, index: usize) -> Result<Indices<'_>, Fault> {
        match self.info(index).dtype {
            DataType::INT32 => Ok(Indices::Short(self.elements(index)?)),
            DataType::INT64 => Ok(Indices::Long(self.elements(index)?)),
            other => Err(Fault::Type(other)),
        }
    }

    /// The elements of one input as numbers of a wide type.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub(crate) fn numbers<W: Wide>(&self, index: usize) -> Result<Numbers<'_, W>, Fault> {
        Numbers::new(self.info(index).dtype, self.bytes(index))
    }

    /// The same of an input that may be left out.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub(crate) fn optional_numbers<W: Wide>(
        &self,
        index: usize,
    ) -> Result<Option<Numbers<'_, W>>, Fault> {
        if index < self.count() { self.numbers(index).map(Some) } else { Ok(None) }
    }

    /// The dims of one input.
    #[must_use]
    pub fn dims(&self, index: usize) -> &[usize] {
        self.info(index).shape.dims()
    }
}

/// Indices of either type.
#[derive(Clone, Copy, Debug)]
pub enum Indices<'a> {
    /// Of 32 bits.
    Short(&'a [i32]),
    /// Of 64 bits.
    Long(&'a [i64]),
}

impl Indices<'_> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Short(own) => own.len(),
            Self::Long(own) => own.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them as it is.
    #[must_use]
    pub fn get(&self, place: usize) -> i64 {
        match self {
            Self::Short(own) => i64::from(own[place]),
            Self::Long(own) => own[place],
        }
    }

    /// One of them as an index of a dim that is not empty; counted from the end when negative, and
    /// the nearest index of the dim when outside.
    #[must_use]
    pub fn at(&self, place: usize, dim: usize) -> usize {
        let (given, length) = (self.get(place), i64::try_from(dim).unwrap_or(i64::MAX));
        let own = if given < 0 { given.saturating_add(length) } else { given };
        usize::try_from(own.clamp(0, length.max(1) - 1)).unwrap_or(0)
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
    /// The further outputs of an op that has more than one; all are there.
    pub more: &'a mut [Option<Part<'a>>],
    /// Threads that parts of the result may be dealt out to.
    pub team: Option<&'a Team>,
}

/// A further output of a kernel call.
#[derive(Debug)]
pub struct Part<'a> {
    /// Type and shape.
    pub info: &'a TensorInfo,
    /// Bytes of the result: exactly as many as type and shape say.
    pub bytes: &'a mut [u8],
}

impl Output<'_> {
    /// The elements to write.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn elements<T: Plain>(&mut self) -> Result<&mut [T], Fault> {
        cast::elements_mut(self.bytes).ok_or(Fault::Memory)
    }

    /// The elements to write, as numbers of a wide type.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub(crate) fn numbers<W: Wide>(&mut self) -> Result<NumbersMut<'_, W>, Fault> {
        NumbersMut::new(self.info.dtype, self.bytes)
    }

    /// The elements to write, and the scratch memory.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn elements_and_scratch<T: Plain>(&mut self) -> Result<(&mut [T], &mut [u8]), Fault> {
        let elements = cast::elements_mut(self.bytes).ok_or(Fault::Memory)?;
        Ok((elements, self.scratch))
    }

    /// Elements of a further output as numbers of a wide type; `None` when the task has fewer.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub(crate) fn further_numbers<W: Wide>(
        &mut self,
        index: usize,
    ) -> Result<Option<NumbersMut<'_, W>>, Fault> {
        match self.more.get_mut(index) {
            Some(Some(part)) => NumbersMut::new(part.info.dtype, part.bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Elements of a further output; `None` when the task has fewer.
    ///
    /// # Errors
    /// The memory does not fit the type.
    pub fn further<T: Plain>(&mut self, index: usize) -> Result<Option<&mut [T]>, Fault> {
        match self.more.get_mut(index) {
            Some(Some(part)) => cast::elements_mut(part.bytes).ok_or(Fault::Memory).map(Some),
            _ => Ok(None),
        }
    }
}

/// Runs a kernel on outputs in a list, which are as many as the op infers: for tests and for
/// folding. Allocates.
///
/// # Errors
/// As [`Op::run`].
pub fn run_into(
    op: &dyn Op,
    inputs: &TensorList<'_>,
    outputs: &mut [(TensorInfo, AlignedBytes)],
    scratch: &mut [u8],
    team: Option<&Team>,
) -> Result<(), Fault> {
    let mut parts: Vec<Option<Part<'_>>> =
        outputs.iter_mut().map(|(info, bytes)| Some(Part { info, bytes })).collect();
    let Some((first, more)) = parts.split_first_mut() else { return Ok(()) };
    let Some(Part { info, bytes }) = first.take() else { return Ok(()) };
    if bytes.is_empty() && more.is_empty() {
        return Ok(());
    }
    op.run(inputs, &mut Output { info, bytes, scratch, more, team })
}

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
