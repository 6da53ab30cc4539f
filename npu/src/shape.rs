//! Shapes: up to [`RANK_MAX`] dims, by value.
//!
//! Invariant I1: the product of all dims, zeros counted as one, is at most [`ELEMENTS_MAX`]. So no
//! product of dims of one shape, in bytes, overflows, whatever file it came from.

use std::fmt;

/// Most dims of a tensor.
pub const RANK_MAX: usize = 8;

/// Most elements of a tensor.
pub const ELEMENTS_MAX: usize = 1 << 40;

/// Dims of a tensor, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; RANK_MAX],
    rank: usize,
}

/// Why dims are no shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// More dims than [`RANK_MAX`].
    Rank(usize),
    /// A negative dim, by its index and value.
    Negative(usize, i64),
    /// More elements than [`ELEMENTS_MAX`].
    Elements,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "{rank} dims; at most {RANK_MAX} are supported"),
            Self::Negative(index, dim) => write!(f, "dim {index} is {dim}; expected 0 or more"),
            Self::Elements => write!(f, "more than {ELEMENTS_MAX} elements"),
        }
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// The shape of one element: no dims.
    pub const SCALAR: Self = Self { dims: [0; RANK_MAX], rank: 0 };

    /// A shape of these dims.
    ///
    /// # Errors
    /// Too many dims, or too many elements.
    pub fn new(dims: &[usize]) -> Result<Self, ShapeError> {
        let mut shape = Self { dims: [0; RANK_MAX], rank: dims.len() };
        shape.dims.get_mut(..dims.len()).ok_or(ShapeError::Rank(dims.len()))?.copy_from_slice(dims);
        dims.iter()
            .try_fold(1usize, |product, dim| product.checked_mul((*dim).max(1)))
            .filter(|product| *product <= ELEMENTS_MAX)
            .ok_or(ShapeError::Elements)?;
        Ok(shape)
    }

    /// A shape of dims as messages and files carry them.
    ///
    /// # Errors
    /// A negative dim, too many dims, or too many elements.
    pub fn from_i64(dims: &[i64]) -> Result<Self, ShapeError> {
        let mut own = [0; RANK_MAX];
        let own = own.get_mut(..dims.len()).ok_or(ShapeError::Rank(dims.len()))?;
        for (index, (to, dim)) in own.iter_mut().zip(dims).enumerate() {
            *to = usize::try_from(*dim).map_err(|_| ShapeError::Negative(index, *dim))?;
        }
        Self::new(own)
    }

    /// The dims, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Number of dims.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Product of all dims; 1 for a scalar.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// Distance in elements between neighbours along each dim, in a dense tensor.
    #[must_use]
    pub fn strides(&self) -> [usize; RANK_MAX] {
        let mut strides = [0; RANK_MAX];
        let mut stride = 1;
        for (index, dim) in self.dims().iter().enumerate().rev() {
            strides[index] = stride;
            stride *= (*dim).max(1);
        }
        strides
    }

    /// The shape that both broadcast to by numpy's rule; `None` if two dims differ and none is 1,
    /// or the result is no shape.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let rank = self.rank.max(other.rank);
        let mut dims = [0; RANK_MAX];
        for (index, dim) in dims[..rank].iter_mut().enumerate() {
            let of = |shape: &Self| {
                (index + shape.rank).checked_sub(rank).map_or(1, |at| shape.dims[at])
            };
            *dim = match (of(self), of(other)) {
                (a, b) if a == b || b == 1 => a,
                (1, b) => b,
                _ => return None,
            };
        }
        Self::new(&dims[..rank]).ok()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[usize]) -> Shape {
        Shape::new(dims).unwrap()
    }

    #[test]
    fn limits_hold_with_zeros_too() {
        assert_eq!(Shape::new(&[1; 9]), Err(ShapeError::Rank(9)));
        assert_eq!(Shape::new(&[0, ELEMENTS_MAX + 1]), Err(ShapeError::Elements));
        assert_eq!(Shape::new(&[usize::MAX, usize::MAX]), Err(ShapeError::Elements));
        assert_eq!(shape(&[0, ELEMENTS_MAX]).elements(), 0);
        assert_eq!(shape(&[ELEMENTS_MAX, 1]).elements(), ELEMENTS_MAX);
        assert_eq!(Shape::from_i64(&[2, -1]), Err(ShapeError::Negative(1, -1)));
        assert_eq!(Shape::from_i64(&[0; 9]), Err(ShapeError::Rank(9)));
        assert_eq!(Shape::from_i64(&[2, 3]), Ok(shape(&[2, 3])));
    }

    #[test]
    fn a_scalar_has_one_element() {
        assert_eq!((Shape::SCALAR.elements(), Shape::SCALAR.rank()), (1, 0));
        assert_eq!(Shape::SCALAR.to_string(), "[]");
        assert_eq!(shape(&[1, 3]).to_string(), "[1, 3]");
    }

    #[test]
    fn strides_of_a_dense_tensor() {
        assert_eq!(shape(&[2, 3, 4]).strides()[..3], [12, 4, 1]);
    }

    #[test]
    fn broadcasting_by_numpy() {
        let both = |a: &[usize], b: &[usize]| shape(a).broadcast(&shape(b));
        assert_eq!(both(&[2, 3], &[3]), Some(shape(&[2, 3])));
        assert_eq!(both(&[2, 1, 4], &[5, 1]), Some(shape(&[2, 5, 4])));
        assert_eq!(both(&[], &[7]), Some(shape(&[7])));
        assert_eq!(both(&[1], &[0]), Some(shape(&[0])));
        assert_eq!(both(&[2], &[0]), None);
        assert_eq!(both(&[2, 3], &[2]), None);
    }
}
