//! Why an op is refused: what was found, what was expected, what is supported.

use std::fmt;

use crate::DataType;
use crate::shape::ShapeError;
use crate::tensor::type_name;

/// Why a node or task is no use of its op. The caller adds node, op and opset.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpError {
    /// The op did not exist in this opset, or it has a newer definition.
    Opset {
        /// Opset of the model.
        found: u32,
        /// Opsets in which the op is known.
        supported: String,
    },
    /// An attribute that this op does not have, or not in this opset, or with such a value.
    Attribute {
        /// Its name.
        name: String,
        /// Its value, or what is wrong with it.
        found: String,
        /// What is supported.
        supported: String,
    },
    /// Too few or too many inputs or outputs.
    Count {
        /// `inputs` or `outputs`.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        supported: String,
    },
    /// An input has a type for which there is no kernel.
    Type {
        /// Index of the input.
        input: usize,
        /// Its type.
        found: DataType,
        /// Types with a kernel.
        supported: String,
    },
    /// A shape does not fit the op or the other shapes.
    Shape(String),
    /// An input that decides about shapes is not known before the model runs.
    NotConstant {
        /// Index of the input.
        input: usize,
        /// Its name in the op's definition.
        name: &'static str,
    },
    /// Parameters in a program are no parameters of the op.
    Params(String),
}

impl OpError {
    /// A shape that does not fit.
    pub fn shape(what: impl Into<String>) -> Self {
        Self::Shape(what.into())
    }

    /// Parameters of a program that are none.
    pub fn params(what: impl Into<String>) -> Self {
        Self::Params(what.into())
    }

    /// An attribute's value that is not supported.
    pub fn attribute(name: &str, found: impl fmt::Display, supported: impl Into<String>) -> Self {
        let found = found.to_string();
        Self::Attribute { name: name.to_owned(), found, supported: supported.into() }
    }

    /// An input of a type without a kernel.
    pub fn types(input: usize, found: DataType, supported: &[DataType]) -> Self {
        let supported = supported.iter().map(|dtype| type_name(*dtype)).collect::<Vec<_>>();
        Self::Type { input, found, supported: supported.join(", ") }
    }
}

impl From<ShapeError> for OpError {
    fn from(error: ShapeError) -> Self {
        Self::Shape(error.to_string())
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opset { found, supported } => {
                write!(f, "not known in opset {found}; supported: {supported}")
            }
            Self::Attribute { name, found, supported } => {
                write!(f, "attribute `{name}`: {found}; supported: {supported}")
            }
            Self::Count { what, found, supported } => {
                write!(f, "{found} {what}; supported: {supported}")
            }
            Self::Type { input, found, supported } => {
                write!(f, "input {input} is {}; supported: {supported}", type_name(*found))
            }
            Self::Shape(what) => f.write_str(what),
            Self::NotConstant { input, name } => write!(
                f,
                "input {input} `{name}` is computed from data; supported: an initializer, or what \
                 follows from shapes alone"
            ),
            Self::Params(what) => write!(f, "parameters: {what}"),
        }
    }
}

impl std::error::Error for OpError {}
