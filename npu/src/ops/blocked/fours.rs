//! Packed weights as fours of bytes, for machines that multiply four bytes with an exact sum.
//!
//! What is packed as pairs ([`super::pack_pairs`], `[N / 16, K / 2, 16, 2]`) is packed again, as
//! `[N / 16, K / 4, 16, 4]` bytes with a sign and, behind all of them, the sum of each column, by
//! which the zero of x is taken out of the result: x keeps its zero and has no sign. A run of pairs
//! that x has behind one another ends with zeros up to a whole number of fours.

use super::{BLOCK, Panel};
use crate::cast;
use crate::tensor::Fault;

/// How the pairs of packed weights are dealt out to fours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fours {
    blocks: usize,
    /// Pairs of a sum.
    depth: usize,
    /// Pairs of a run.
    run: usize,
}

/// Numbers in four bytes each: weights, and the sums of their columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a> {
    pub(super) panels: &'a [Panel],
    pub(super) sums: &'a [[i32; BLOCK]],
}

impl Fours {
    /// Of weights `[blocks, depth, 16, 2]` with runs of so many pairs; `None` where they do not fit
    /// each other.
    #[must_use]
    pub fn new(dims: &[usize], run: usize) -> Option<Self> {
        let &[blocks, depth, BLOCK, 2] = dims else { return None };
        (run > 0 && depth > 0 && depth.is_multiple_of(run)).then_some(Self { blocks, depth, run })
    }

    /// Fours of a sum.
    pub(super) fn depth(&self) -> usize {
        self.depth / self.run * self.run.div_ceil(2)
    }

    /// Bytes of the packed weights with their sums.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.depth() + 1).saturating_mul(self.blocks).saturating_mul(size_of::<Panel>())
    }

    /// Whether every number has no more than eight bits, so that all can be packed. `pairs` are the
    /// bytes of the weights.
    #[must_use]
    pub fn fits(&self, pairs: &[u8]) -> bool {
        let pairs = cast::elements::<i16>(pairs).unwrap_or_default();
        pairs.len() == self.blocks * self.depth * BLOCK * 2
            && pairs.iter().all(|own| i8::try_from(*own).is_ok())
    }

    /// Packs what [`Fours::fits`] into as many bytes as [`Fours::bytes`] says, all of them zero.
    pub fn pack(&self, pairs: &[u8], to: &mut [u8]) {
        let (own, sums) = to.split_at_mut(self.blocks * self.depth() * size_of::<Panel>());
        let pairs = cast::elements::<i16>(pairs).unwrap_or_default();
        let (pairs, _) = pairs.as_chunks::<{ 2 * BLOCK }>();
        let (own, _) = own.as_chunks_mut::<{ size_of::<Panel>() }>();
        let (sums, _) = sums.as_chunks_mut::<{ size_of::<Panel>() }>();
        let fours = own.chunks_mut(self.depth());
        for ((pairs, fours), sums) in pairs.chunks(self.depth).zip(fours).zip(sums) {
            let runs = pairs.chunks(self.run).zip(fours.chunks_mut(self.run.div_ceil(2)));
            runs.for_each(|(pairs, fours)| deal(pairs, fours));
            let (sums, _) = sums.as_chunks_mut();
            for (column, to) in sums.iter_mut().enumerate() {
                let numbers = pairs.iter().flat_map(|pair| &pair[2 * column..][..2]);
                let sum: i32 = numbers.map(|number| i32::from(*number)).sum();
                *to = sum.to_le_bytes();
            }
        }
    }

    /// What [`Fours::pack`] has made of the weights.
    pub(super) fn read<'a>(&self, packed: &'a [u8]) -> Result<Packed<'a>, Fault> {
        let words = cast::elements::<i32>(packed).ok_or(Fault::Memory)?;
        let (panels, _) = words.as_chunks();
        let at = self.blocks * self.depth();
        let (panels, sums) = panels.split_at_checked(at).ok_or(Fault::Memory)?;
        if sums.len() < self.blocks { Err(Fault::Memory) } else { Ok(Packed { panels, sums }) }
    }
}

/// Two pairs of each column to one four.
fn deal(pairs: &[[i16; 2 * BLOCK]], fours: &mut [[u8; size_of::<Panel>()]]) {
    for (pairs, four) in pairs.chunks(2).zip(fours) {
        for (half, pair) in pairs.iter().enumerate() {
            for (place, number) in pair.iter().enumerate() {
                four[place / 2 * 4 + half * 2 + place % 2] = number.to_le_bytes()[0];
            }
        }
    }
}
