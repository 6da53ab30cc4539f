//! A node of a model as an op sees it when it is imported: opset, attributes, what is known of its
//! inputs.

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::cast::elements;
use crate::element::{Element, with_element};
use crate::ops::OpError;
use crate::tensor::{Fault, TensorInfo, element_size};

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A number.
    Int(i64),
    /// A float.
    Float(f32),
    /// A text.
    Text(String),
    /// Numbers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f32>),
    /// Texts.
    Texts(Vec<String>),
    /// A tensor: its little-endian bytes.
    Tensor(TensorInfo, Vec<u8>),
    /// A kind that no op of the table takes, by its name.
    Other(&'static str),
}

impl AttributeValue {
    /// The kind, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "a number",
            Self::Float(_) => "a float",
            Self::Text(_) => "a text",
            Self::Ints(_) => "a list of numbers",
            Self::Floats(_) => "a list of floats",
            Self::Texts(_) => "a list of texts",
            Self::Tensor(..) => "a tensor",
            Self::Other(kind) => kind,
        }
    }
}

/// What is known of an input.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Type and shape.
    pub info: TensorInfo,
    /// Little-endian bytes, when the value is known before the model runs.
    pub value: Option<&'a [u8]>,
}

/// A node.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// Version of the operator set that the model was written for.
    pub opset: u32,
    /// Name and value of each attribute.
    pub attributes: &'a [(String, AttributeValue)],
    /// The inputs; `None` for an optional one that is left out.
    pub inputs: &'a [Option<Known<'a>>],
    /// Number of outputs that have a name.
    pub outputs: usize,
}

impl<'a> Node<'a> {
    fn find(&self, name: &str) -> Option<&'a AttributeValue> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    fn wrong<T>(name: &str, value: &AttributeValue, expected: &str) -> Result<T, OpError> {
        Err(OpError::attribute(name, value.kind(), expected))
    }

    /// A number, if it is there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn int(&self, name: &str) -> Result<Option<i64>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Int(value)) => Ok(Some(*value)),
            Some(other) => Self::wrong(name, other, "a number"),
        }
    }

    /// A number that is 0 or 1, or `default`.
    ///
    /// # Errors
    /// Another kind or another number.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, OpError> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(other) => Err(OpError::attribute(name, other, "0 or 1")),
        }
    }

    /// A float, or `default`.
    ///
    /// # Errors
    /// The attribute is of another kind, or not finite.
    pub fn float(&self, name: &str, default: f32) -> Result<f32, OpError> {
        match self.find(name) {
            None => Ok(default),
            Some(AttributeValue::Float(value)) if value.is_finite() => Ok(*value),
            Some(AttributeValue::Float(value)) => {
                Err(OpError::attribute(name, value, "a finite float"))
            }
            Some(other) => Self::wrong(name, other, "a float"),
        }
    }

    /// A float, if it is there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn find_float(&self, name: &str) -> Result<Option<f32>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Float(value)) => Ok(Some(*value)),
            Some(other) => Self::wrong(name, other, "a float"),
        }
    }

    /// Floats, if they are there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn floats(&self, name: &str) -> Result<Option<&'a [f32]>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Floats(value)) => Ok(Some(value)),
            Some(other) => Self::wrong(name, other, "a list of floats"),
        }
    }

    /// Texts, if they are there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn texts(&self, name: &str) -> Result<Option<&'a [String]>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Texts(value)) => Ok(Some(value)),
            Some(other) => Self::wrong(name, other, "a list of texts"),
        }
    }

    /// A tensor, if it is there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn tensor(&self, name: &str) -> Result<Option<(&'a TensorInfo, &'a [u8])>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Tensor(info, bytes)) => Ok(Some((info, bytes))),
            Some(other) => Self::wrong(name, other, "a tensor"),
        }
    }

    /// A type by ONNX's number, if it is there.
    ///
    /// # Errors
    /// The attribute is of another kind, or the type has no kernels.
    pub fn data_type(&self, name: &str) -> Result<Option<DataType>, OpError> {
        let Some(number) = self.int(name)? else { return Ok(None) };
        let dtype = i32::try_from(number).ok().and_then(of_onnx);
        let supported = "types of floats, whole numbers and bools of 8 to 64 bits";
        dtype.map(Some).ok_or_else(|| OpError::attribute(name, number, supported))
    }

    /// A text, if it is there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Text(value)) => Ok(Some(value)),
            Some(other) => Self::wrong(name, other, "a text"),
        }
    }

    /// Numbers, if they are there.
    ///
    /// # Errors
    /// The attribute is of another kind.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, OpError> {
        match self.find(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(value)) => Ok(Some(value)),
            Some(other) => Self::wrong(name, other, "a list of numbers"),
        }
    }

    /// Numbers that are an attribute in older opsets and an input in those from `since` on, if they
    /// are given.
    ///
    /// # Errors
    /// As [`Self::ints`] and [`Self::integers`].
    pub fn list(
        &self,
        name: &'static str,
        since: u32,
        index: usize,
    ) -> Result<Option<Vec<i64>>, OpError> {
        if self.opset < since {
            if self.has(index) {
                let supported = format!("{index}");
                return Err(OpError::Count { what: "inputs", found: self.inputs.len(), supported });
            }
            return Ok(self.ints(name)?.map(<[i64]>::to_vec));
        }
        if self.has(index) { self.integers(index, name).map(Some) } else { Ok(None) }
    }

    /// One input that has to be there; the table has checked that it is.
    ///
    /// # Errors
    /// It is left out.
    pub fn input(&self, index: usize) -> Result<&'a Known<'a>, OpError> {
        self.inputs.get(index).and_then(Option::as_ref).ok_or_else(|| OpError::Count {
            what: "inputs",
            found: self.inputs.len(),
            supported: format!("input {index} is not optional"),
        })
    }

    /// Whether an optional input is given.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// The numbers of an input whose value has to be known, of any type but bool: without their
    /// fractions, and as the nearest floats.
    ///
    /// # Errors
    /// It is left out, of another type, or its value is computed from data.
    pub fn numbers(&self, index: usize, name: &'static str) -> Result<Vec<(i64, f64)>, OpError> {
        fn read<T: Element>(bytes: &[u8]) -> Result<Vec<(i64, f64)>, Fault> {
            let list = elements::<T>(bytes).ok_or(Fault::Memory)?;
            Ok(list.iter().map(|x| (x.to_i64(), x.to_f64())).collect())
        }
        let known = self.input(index)?;
        let bytes = known.value.ok_or(OpError::NotConstant { input: index, name })?;
        let bytes = AlignedBytes::copy_of(bytes);
        let read = with_element!(known.info.dtype, T => read::<T>(&bytes));
        let types = [DataType::FLOAT, DataType::INT64];
        read.map_err(|_| OpError::types(index, known.info.dtype, &types))
    }

    /// The whole numbers of an input whose value has to be known; rank 0 or 1, i64 or i32.
    ///
    /// # Errors
    /// It is left out, of another type or rank, or its value is computed from data.
    pub fn integers(&self, index: usize, name: &'static str) -> Result<Vec<i64>, OpError> {
        let known = self.input(index)?;
        let types = [DataType::INT64, DataType::INT32];
        if !types.contains(&known.info.dtype) {
            return Err(OpError::types(index, known.info.dtype, &types));
        }
        if known.info.shape.rank() > 1 {
            let shape = known.info.shape;
            return Err(OpError::shape(format!("input {index} `{name}` is {shape}; expected 1-D")));
        }
        let bytes = known.value.ok_or(OpError::NotConstant { input: index, name })?;
        if element_size(known.info.dtype) == Some(8) {
            let (words, _) = bytes.as_chunks();
            return Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect());
        }
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| i64::from(i32::from_le_bytes(*word))).collect())
    }
}

/// A type of ONNX as one of ours; `None` for those without kernels.
#[must_use]
pub fn of_onnx(number: i32) -> Option<DataType> {
    match number {
        1 => Some(DataType::FLOAT),
        2 => Some(DataType::UINT8),
        3 => Some(DataType::INT8),
        4 => Some(DataType::UINT16),
        5 => Some(DataType::INT16),
        6 => Some(DataType::INT32),
        7 => Some(DataType::INT64),
        9 => Some(DataType::BOOL),
        10 => Some(DataType::FLOAT16),
        11 => Some(DataType::DOUBLE),
        12 => Some(DataType::UINT32),
        13 => Some(DataType::UINT64),
        16 => Some(DataType::BF16),
        _ => None,
    }
}

/// An axis, counted from the end when negative, as an index of a dim.
///
/// # Errors
/// There is no such dim.
pub fn axis(name: &str, axis: i64, rank: usize) -> Result<usize, OpError> {
    let bound = i64::try_from(rank).unwrap_or(i64::MAX);
    let index = if axis < 0 { axis.saturating_add(bound) } else { axis };
    usize::try_from(index)
        .ok()
        .filter(|index| *index < rank)
        .ok_or_else(|| OpError::attribute(name, axis, format!("-{rank} to {rank} exclusive")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_count_from_both_ends() {
        assert_eq!(axis("axis", -1, 4), Ok(3));
        assert_eq!(axis("axis", 0, 4), Ok(0));
        assert!(axis("axis", 4, 4).is_err());
        assert!(axis("axis", -5, 4).is_err());
        assert!(axis("axis", i64::MIN, 4).is_err());
        assert!(axis("axis", 0, 0).is_err());
    }

    #[test]
    fn an_attribute_of_another_kind_is_named() {
        let attributes = [("axis".to_owned(), AttributeValue::Float(1.0))];
        let node = Node { opset: 13, attributes: &attributes, inputs: &[], outputs: 1 };
        let error = node.int("axis").unwrap_err().to_string();
        assert_eq!(error, "attribute `axis`: a float; supported: a number");
        assert_eq!(node.int("other"), Ok(None));
        assert_eq!(node.float("axis", 0.0), Ok(1.0));
    }
}
