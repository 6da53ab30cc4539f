//! Shapes with open dimensions.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::DType;

/// Dimensions of a tensor, outermost first; −1 is a dimension that any length fits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shape(pub Vec<i64>);

impl Shape {
    /// Whether the two can describe one message: same rank, and each pair of dimensions equal or
    /// one of them −1.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        let fits = |(a, b): (&i64, &i64)| a == b || *a == -1 || *b == -1;
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(fits)
    }

    /// Payload bytes, if no dimension is open and the product fits.
    #[must_use]
    pub fn payload_bytes(&self, dtype: DType) -> Option<u64> {
        let count = self.0.iter().try_fold(1_u64, |count, dim| {
            u64::try_from(*dim).ok().and_then(|dim| count.checked_mul(dim))
        })?;
        count.checked_mul(dtype.element_bytes())
    }
}

impl<const N: usize> From<[i64; N]> for Shape {
    fn from(dims: [i64; N]) -> Self {
        Self(dims.to_vec())
    }
}

impl From<Vec<i64>> for Shape {
    fn from(dims: Vec<i64>) -> Self {
        Self(dims)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_dimensions_match_anything_of_the_same_rank() {
        let open = Shape::from([-1, 3]);
        assert!(open.matches(&[7, 3].into()));
        assert!(open.matches(&[7, -1].into()));
        assert!(!open.matches(&[7, 4].into()));
        assert!(!open.matches(&[3].into()));
    }

    #[test]
    fn bytes_are_known_when_no_dimension_is_open() {
        assert_eq!(Shape::from([2, 3]).payload_bytes(DType::Float32), Some(24));
        assert_eq!(Shape::from([]).payload_bytes(DType::Int64), Some(8));
        assert_eq!(Shape::from([-1]).payload_bytes(DType::Uint8), None);
        assert_eq!(Shape::from([i64::MAX, 4]).payload_bytes(DType::Uint8), None);
    }
}
