//! Steps of an Einsum, and copies of tensors in another order of their letters.

use crate::cast::{elements, elements_mut};
use crate::element::Element;
use crate::shape::RANK_MAX;
use crate::tensor::Fault;

/// Numbers of letters: the alphabet twice, and as many as dims for an ellipsis.
pub(super) const LETTERS: usize = 60;

/// Letters in an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    letters: [u8; LETTERS],
    count: usize,
}

impl Default for List {
    fn default() -> Self {
        Self { letters: [0; LETTERS], count: 0 }
    }
}

impl List {
    /// Of at most as many letters as a tensor has dims.
    pub(super) fn new(letters: impl Iterator<Item = usize>) -> Option<Self> {
        let mut own = Self::default();
        for letter in letters {
            if letter >= LETTERS || own.count >= RANK_MAX {
                return None;
            }
            own.push(letter);
        }
        Some(own)
    }

    /// Puts one behind the others. Different ones fit in any number.
    fn push(&mut self, letter: usize) {
        if let (Some(to), Ok(letter)) = (self.letters.get_mut(self.count), u8::try_from(letter)) {
            *to = letter;
            self.count += 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = usize> + DoubleEndedIterator + '_ {
        self.letters[..self.count].iter().copied().map(usize::from)
    }

    fn set(&self) -> u64 {
        self.iter().fold(0, |set, letter| set | 1 << letter)
    }

    fn elements(&self, sizes: &[usize; LETTERS]) -> usize {
        self.iter().fold(1, |elements, letter| elements.saturating_mul(sizes[letter]))
    }
}

/// Two tensors as stacks of matrices.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The orders that both are copied into.
    pub(super) left: List,
    pub(super) right: List,
    result: List,
    /// Matrices, rows, depth, columns.
    sizes: [usize; 4],
}

impl Step {
    /// Of the letters of both, when some are `needed` later.
    pub(super) fn new(own: List, other: List, needed: u64, sizes: &[usize; LETTERS]) -> Self {
        let (a, b) = (own.set(), other.set());
        let list = |set: u64| {
            let mut own = List::default();
            (0..LETTERS).filter(|letter| set >> letter & 1 == 1).for_each(|x| own.push(x));
            own
        };
        let parts = [a & b & needed, a & !b & needed, a & b & !needed, b & !a & needed].map(list);
        let [stack, rows, depth, columns] = parts;
        let joined = |lists: [List; 3]| {
            let mut own = List::default();
            lists.iter().flat_map(List::iter).for_each(|letter| own.push(letter));
            own
        };
        Self {
            left: joined([stack, rows, depth]),
            right: joined([stack, depth, columns]),
            result: joined([stack, rows, columns]),
            sizes: parts.map(|part| part.elements(sizes)),
        }
    }

    pub(super) fn result(&self) -> List {
        self.result
    }

    pub(super) fn sizes(&self) -> [usize; 4] {
        self.sizes
    }

    fn volume(&self, sides: [usize; 3]) -> usize {
        sides.iter().fold(1, |volume: usize, side| volume.saturating_mul(self.sizes[*side]))
    }

    /// Elements of the left side.
    pub(super) fn left(&self) -> usize {
        self.volume([0, 1, 2])
    }

    /// Elements of the right side.
    pub(super) fn right(&self) -> usize {
        self.volume([0, 2, 3])
    }

    /// Elements of the result.
    pub(super) fn product(&self) -> usize {
        self.volume([0, 1, 3])
    }
}

/// A tensor in memory by its letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    letters: u64,
    /// Distance of elements along each letter: 0 where one is repeated.
    strides: [usize; LETTERS],
}

impl Source {
    /// Of dims that may be 1 where the letter's size is another, with letters that may be there
    /// twice: then it is a diagonal.
    pub(super) fn strided(letters: List, dims: &[usize], sizes: &[usize; LETTERS]) -> Self {
        let (mut strides, mut stride) = ([0; LETTERS], 1);
        for (letter, dim) in letters.iter().zip(dims.iter().copied()).rev() {
            if dim == sizes[letter] {
                strides[letter] += stride;
            }
            stride *= dim;
        }
        Self { letters: letters.set(), strides }
    }

    /// Of letters that are there once.
    pub(super) fn dense(letters: List, sizes: &[usize; LETTERS]) -> Self {
        let (mut strides, mut stride) = ([0; LETTERS], 1);
        for letter in letters.iter().rev() {
            strides[letter] = stride;
            stride *= sizes[letter];
        }
        Self { letters: letters.set(), strides }
    }
}

/// Writes a tensor in an order of letters; those that the order does not have are summed.
pub(super) fn copy<T: Element>(
    from: &[u8],
    source: &Source,
    order: &List,
    sizes: &[usize; LETTERS],
    to: &mut [u8],
) -> Result<(), Fault> {
    let from = elements::<T>(from).ok_or(Fault::Memory)?;
    let to = elements_mut::<T>(to).ok_or(Fault::Memory)?;
    let summed = source.letters & !order.set();
    let mut others = List::default();
    (0..LETTERS).filter(|letter| summed >> letter & 1 == 1).for_each(|x| others.push(x));
    let (mut at, mut first) = ([0usize; LETTERS], 0usize);
    let count = others.elements(sizes);
    for to in to.iter_mut() {
        let mut sum = T::ZERO;
        if summed == 0 {
            sum = from[first];
        } else {
            let (mut inner, mut place) = ([0usize; LETTERS], first);
            for _each in 0..count {
                sum = sum.plus(from[place]);
                step(&others, source, sizes, &mut inner, &mut place);
            }
        }
        *to = sum;
        step(order, source, sizes, &mut at, &mut first);
    }
    Ok(())
}

/// To the next index, the last letter first.
#[inline]
fn step(
    order: &List,
    source: &Source,
    sizes: &[usize; LETTERS],
    at: &mut [usize; LETTERS],
    place: &mut usize,
) {
    for letter in order.iter().rev() {
        at[letter] += 1;
        *place += source.strides[letter];
        if at[letter] < sizes[letter] {
            return;
        }
        *place -= source.strides[letter] * sizes[letter];
        at[letter] = 0;
    }
}
