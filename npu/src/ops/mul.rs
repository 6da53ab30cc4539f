//! Mul: the product of two tensors, element by element, with broadcasting.

use crate::ops::OpEntry;
use crate::ops::pairwise::{Pair, Pairwise};
use crate::tensor::Element;

/// The line of the table.
pub static ENTRY: OpEntry = Mul::entry("Mul", 10);

/// The product of two tensors.
pub type Mul = Pairwise<Times>;

/// The product of two elements.
#[derive(Debug)]
pub struct Times;

impl Pair for Times {
    const ENTRY: &'static OpEntry = &ENTRY;

    #[inline(always)]
    fn of<T: Element>(a: T, b: T) -> T {
        a.times(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, ints};

    #[test]
    fn a_scale_of_each_map() {
        let case = Case::new(&ENTRY, 15)
            .input(float(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input(float(&[1, 2, 1, 1], &[10.0, 0.5]));
        assert_eq!(case.run(), float(&[1, 2, 1, 2], &[10.0, 20.0, 1.5, 2.0]));
        let outer = Case::new(&ENTRY, 7).input(ints(&[2, 1], &[2, 3])).input(ints(&[2], &[5, 7]));
        assert_eq!(outer.run(), ints(&[2, 2], &[10, 14, 15, 21]));
    }

    #[test]
    fn empty_operands_make_an_empty_result() {
        let case = Case::new(&ENTRY, 15).input(float(&[0, 2], &[])).input(float(&[1], &[1.0]));
        assert_eq!(case.run(), float(&[0, 2], &[]));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let case = Case::new(&ENTRY, 15).input(float(&[2], &[1.0; 2]));
        let case = case.input(float(&[3], &[1.0; 3]));
        assert!(case.refused().contains("[2] and [3] do not broadcast"));
    }
}
