//! Element types, with the words of a graph file and the numbers of spec/udf.md §1.2.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each name says what it is")]
pub enum DType {
    Float32,
    Float16,
    Int8,
    Int32,
    Uint8,
    Int16,
    Uint16,
    Uint32,
    Int64,
    Uint64,
    Float64,
    Bool,
    Bfloat16,
}

/// Type, word, number (`TensorDataType`), bytes an element.
const TABLE: [(DType, &str, i32, u64); 13] = [
    (DType::Float32, "float32", 0, 4),
    (DType::Float16, "float16", 1, 2),
    (DType::Int8, "int8", 2, 1),
    (DType::Int32, "int32", 3, 4),
    (DType::Uint8, "uint8", 4, 1),
    (DType::Int16, "int16", 6, 2),
    (DType::Uint16, "uint16", 7, 2),
    (DType::Uint32, "uint32", 8, 4),
    (DType::Int64, "int64", 9, 8),
    (DType::Uint64, "uint64", 10, 8),
    (DType::Float64, "float64", 11, 8),
    (DType::Bool, "bool", 12, 1),
    (DType::Bfloat16, "bfloat16", 27, 2),
];

impl DType {
    /// All types.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The word in a graph file.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// The number in tensor descriptors and attributes, `TensorDataType`.
    #[must_use]
    pub fn code(self) -> i32 {
        self.row().2
    }

    /// The type of a number; `None` for numbers that this version does not have.
    #[must_use]
    pub fn of_code(code: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == code).map(|row| row.0)
    }

    /// Bytes an element takes.
    #[must_use]
    pub fn element_bytes(self) -> u64 {
        self.row().3
    }

    fn row(self) -> &'static (Self, &'static str, i32, u64) {
        &TABLE[self as usize]
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_order_and_words_are_serdes() {
        for (index, (dtype, word, _, _)) in TABLE.iter().enumerate() {
            assert_eq!(*dtype as usize, index);
            assert_eq!(serde_json::to_value(dtype).unwrap(), *word);
        }
    }
}
