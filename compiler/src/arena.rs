//! Places in the arena: tensors that are needed at the same time do not overlap.
//!
//! Greedy, largest first; each takes the smallest gap that it fits into, the lowest of equals. The
//! result depends on the list alone.

use npu::aligned::align_up;

/// Something that needs a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Bytes; the place is as long as their next multiple of 64.
    pub(crate) bytes: usize,
    /// First step at which it is needed.
    pub(crate) first: usize,
    /// Last step at which it is needed.
    pub(crate) last: usize,
}

impl Item {
    fn meets(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Steps that are looked at together.
const BLOCK: usize = 64;

/// Items that have a place, findable by step: each is listed in every block of steps that it is
/// needed in. A chain of n short-lived tensors so costs n times a block, not n times n.
struct Taken {
    blocks: Vec<Vec<usize>>,
}

impl Taken {
    fn new(items: &[Item]) -> Self {
        let steps = items.iter().map(|item| item.last + 1).max().unwrap_or(0);
        Self { blocks: vec![Vec::new(); steps.div_ceil(BLOCK)] }
    }

    fn add(&mut self, index: usize, item: &Item) {
        self.blocks[item.first / BLOCK..=item.last / BLOCK]
            .iter_mut()
            .for_each(|block| block.push(index));
    }

    /// Places that an item must not overlap: (offset, end), by offset.
    fn meeting(&self, item: &Item, items: &[Item], offsets: &[usize]) -> Vec<(usize, usize)> {
        let blocks = &self.blocks[item.first / BLOCK..=item.last / BLOCK];
        let mut places: Vec<(usize, usize)> = blocks
            .iter()
            .flatten()
            .filter(|other| items[**other].meets(item))
            .map(|other| (offsets[*other], offsets[*other] + align_up(items[*other].bytes)))
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Offsets of the items, in their order, and bytes of the arena.
pub(crate) fn place(items: &[Item]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(items[*index].bytes), *index));
    let mut offsets = vec![0; items.len()];
    let mut taken = Taken::new(items);
    let mut size = 0;
    for index in order {
        let item = &items[index];
        let length = align_up(item.bytes);
        if length == 0 {
            continue;
        }
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0;
        for (offset, other_end) in taken.meeting(item, items, &offsets) {
            let gap = offset.saturating_sub(end);
            if gap >= length && best.is_none_or(|(own, _)| gap < own) {
                best = Some((gap, end));
            }
            end = end.max(other_end);
        }
        let offset = best.map_or(end, |(_, offset)| offset);
        offsets[index] = offset;
        size = size.max(offset + length);
        taken.add(index, item);
    }
    (offsets, size)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(bytes: usize, first: usize, last: usize) -> Item {
        Item { bytes, first, last }
    }

    #[test]
    fn a_chain_needs_two_at_a_time() {
        let items = [item(64, 0, 1), item(64, 1, 2), item(64, 2, 3)];
        assert_eq!(place(&items), (vec![0, 64, 0], 128));
    }

    #[test]
    fn the_smallest_gap_is_taken() {
        // Two gaps are free at step 1: 192 bytes at 0, and 64 behind 320.
        let items =
            [item(192, 0, 0), item(128, 0, 1), item(64, 0, 0), item(64, 0, 1), item(10, 1, 1)];
        let (offsets, size) = place(&items);
        assert_eq!(size, 448);
        let last = offsets[4];
        assert!(last % 64 == 0 && last + 64 <= size);
    }

    #[test]
    fn nothing_needs_no_place() {
        assert_eq!(place(&[]), (vec![], 0));
        assert_eq!(place(&[item(0, 0, 9)]), (vec![0], 0));
    }

    #[test]
    fn a_long_chain_is_placed_in_no_time() {
        let chain = (0..100_000).map(|step| item(64, step, step + 1));
        assert_eq!(place(&chain.collect::<Vec<_>>()).1, 128);
    }

    proptest! {
        #[test]
        fn what_is_needed_together_does_not_overlap(
            items in prop::collection::vec((0usize..500, 0usize..150, 0usize..90), 0..40),
        ) {
            let items: Vec<Item> =
                items.iter().map(|(size, from, more)| item(*size, *from, from + more)).collect();
            let (offsets, size) = place(&items);
            let mut peak = 0;
            for step in 0..240 {
                let live = items.iter().filter(|item| item.first <= step && step <= item.last);
                peak = peak.max(live.map(|item| align_up(item.bytes)).sum());
            }
            prop_assert!(size >= peak && size <= items.iter().map(|i| align_up(i.bytes)).sum());
            for (a, item) in items.iter().enumerate() {
                prop_assert!(offsets[a] % 64 == 0 && offsets[a] + item.bytes <= size);
                for (b, other) in items.iter().enumerate().skip(a + 1) {
                    let apart = offsets[a] + item.bytes <= offsets[b]
                        || offsets[b] + other.bytes <= offsets[a];
                    prop_assert!(apart || !item.meets(other) || item.bytes * other.bytes == 0);
                }
            }
        }
    }
}
