//! Add: the sum of two tensors, element by element, with broadcasting.

use crate::ops::OpEntry;
use crate::ops::pairwise::{Pair, Pairwise};
use crate::tensor::Element;

/// The line of the table.
pub static ENTRY: OpEntry = Add::entry("Add", 1);

/// The sum of two tensors.
pub type Add = Pairwise<Plus>;

/// The sum of two elements.
#[derive(Debug)]
pub struct Plus;

impl Pair for Plus {
    const ENTRY: &'static OpEntry = &ENTRY;

    #[inline(always)]
    fn of<T: Element>(a: T, b: T) -> T {
        a.plus(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, int64, ints};

    #[test]
    fn numpy_broadcasting_of_every_type() {
        let sum = Case::new(&ENTRY, 14)
            .input(float(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input(float(&[2], &[10.0, 20.0]));
        assert_eq!(sum.run(), float(&[2, 2], &[11.0, 22.0, 13.0, 24.0]));
        let wraps = Case::new(&ENTRY, 14).input(int64(&[1], &[i64::MAX])).input(int64(&[], &[1]));
        assert_eq!(wraps.run(), int64(&[1], &[i64::MIN]));
    }

    #[test]
    fn the_attributes_of_opset_6() {
        let case = Case::new(&ENTRY, 6)
            .int("broadcast", 1)
            .int("axis", 0)
            .input(float(&[2, 2], &[0.0, 0.0, 0.0, 0.0]))
            .input(float(&[2], &[1.0, 2.0]));
        assert_eq!(case.run(), float(&[2, 2], &[1.0, 1.0, 2.0, 2.0]));
        let suffix = Case::new(&ENTRY, 1)
            .int("broadcast", 1)
            .ints("consumed_inputs", &[0, 0])
            .input(float(&[2, 2], &[0.0, 0.0, 0.0, 0.0]))
            .input(float(&[2], &[1.0, 2.0]));
        assert_eq!(suffix.run(), float(&[2, 2], &[1.0, 2.0, 1.0, 2.0]));
        let unasked =
            Case::new(&ENTRY, 6).input(float(&[2, 2], &[0.0; 4])).input(float(&[2], &[1.0, 2.0]));
        assert!(unasked.refused().contains("`broadcast` = 0"));
    }

    #[test]
    fn what_is_refused() {
        let later = Case::new(&ENTRY, 7).int("broadcast", 1);
        let later = later.input(float(&[1], &[1.0])).input(float(&[1], &[1.0]));
        assert!(later.refused().contains("was removed in opset 7"));
        let mixed = Case::new(&ENTRY, 14).input(float(&[1], &[1.0])).input(int64(&[1], &[1]));
        assert!(mixed.refused().contains("input 1 is int64; supported: float32"));
        let early = Case::new(&ENTRY, 5).input(ints(&[1], &[1])).input(ints(&[1], &[1]));
        assert!(early.refused().contains("supported: float32"), "whole numbers since opset 6");
    }
}
