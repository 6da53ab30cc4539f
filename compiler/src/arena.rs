//! Places in the arena: tensors that may be needed at the same time do not overlap.
//!
//! Greedy, largest first; each takes the smallest gap that it fits into, the lowest of equals. One
//! that meets more than [`MEETING_MAX`] others goes on top of them all instead, so that n tensors
//! which all live at once do not cost n times n. The result depends on the list alone.

use std::ops::Range;

use npu::aligned::align_up;

use crate::streams::Counts;

/// Something that needs a place.
///
/// Tasks of several streams are partly ordered: of the steps between first and last some may come
/// after its last use. So what two items have of streams decides where their steps meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Bytes; the place is as long as their next multiple of 64.
    pub(crate) bytes: usize,
    /// First step at which it is needed.
    pub(crate) first: usize,
    /// Last step at which it is needed.
    pub(crate) last: usize,
    /// How many tasks of each stream have ended when it is needed first.
    pub(crate) ended: Counts,
    /// How many tasks of each stream have ended when it is needed no more.
    pub(crate) gone: Counts,
}

impl Item {
    /// Whether it is needed no more when the other one is needed first.
    fn is_before(&self, other: &Item) -> bool {
        self.gone.iter().zip(&other.ended).all(|(gone, ended)| gone <= ended)
    }
}

/// Most entries that are compared to find the smallest gap.
const MEETING_MAX: usize = 2048;

/// Items that have a place, findable by step: a tree of spans of steps, each the half of the one
/// above. An item is listed in the largest spans that it is needed in all of: two a level.
struct Taken {
    /// The root at 1, the halves of `n` at `2 * n` and `2 * n + 1`.
    spans: Vec<Span>,
    /// Steps of the root.
    steps: usize,
    /// Spans and entries that were looked at so far.
    looks: usize,
}

#[derive(Clone, Debug, Default)]
struct Span {
    items: Vec<usize>,
    /// Entries of this span and of all below it.
    entries: usize,
    /// Highest end of this span's items, and of those below it, too.
    top: usize,
    top_below: usize,
}

/// An item on its way through the tree: its index, its steps, and the end of its place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    index: usize,
    item: Item,
    end: usize,
}

impl Taken {
    fn new(items: &[Item]) -> Self {
        let steps = items.iter().map(|item| item.last + 1).max().unwrap_or(0);
        let steps = steps.next_power_of_two();
        Self { spans: vec![Span::default(); 2 * steps], steps, looks: 0 }
    }

    fn add(&mut self, at: usize, steps: Range<usize>, entry: &Entry) {
        if apart(&steps, &entry.item) {
            return;
        }
        self.looks += 1;
        let whole = entry.item.first <= steps.start && steps.end <= entry.item.last + 1;
        if !whole {
            let [low, high] = halves(&steps);
            self.add(2 * at, low, entry);
            self.add(2 * at + 1, high, entry);
        }
        let below =
            if whole { 0 } else { self.spans[2 * at].entries + self.spans[2 * at + 1].entries };
        let span = &mut self.spans[at];
        span.top_below = span.top_below.max(entry.end);
        if whole {
            span.items.push(entry.index);
            span.top = span.top.max(entry.end);
            span.entries += 1;
        } else {
            span.entries = span.items.len() + below;
        }
    }

    /// Collects what an item meets, some of it twice; whether that is no more than `most`.
    fn collect(
        &mut self,
        (at, steps): (usize, Range<usize>),
        item: &Item,
        most: usize,
        found: &mut Vec<usize>,
    ) -> bool {
        let span = &self.spans[at];
        if span.entries == 0 || apart(&steps, item) {
            return true;
        }
        self.looks += 1;
        let whole = item.first <= steps.start && steps.end <= item.last + 1;
        if found.len() + if whole { span.entries } else { span.items.len() } > most {
            return false;
        }
        self.looks += span.items.len();
        found.extend(&span.items);
        let [low, high] = halves(&steps);
        steps.len() == 1
            || self.collect((2 * at, low), item, most, found)
                && self.collect((2 * at + 1, high), item, most, found)
    }

    /// The highest end of what an item meets.
    fn top(&mut self, at: usize, steps: Range<usize>, item: &Item) -> usize {
        let span = &self.spans[at];
        if span.entries == 0 || apart(&steps, item) {
            return 0;
        }
        self.looks += 1;
        if item.first <= steps.start && steps.end <= item.last + 1 {
            return span.top_below;
        }
        let own = span.top;
        let [low, high] = halves(&steps);
        own.max(self.top(2 * at, low, item)).max(self.top(2 * at + 1, high, item))
    }
}

fn apart(steps: &Range<usize>, item: &Item) -> bool {
    item.last < steps.start || steps.end <= item.first
}

fn halves(steps: &Range<usize>) -> [Range<usize>; 2] {
    let middle = steps.start + steps.len() / 2;
    [steps.start..middle, middle..steps.end]
}

/// Offsets of the items, in their order, and bytes of the arena.
pub(crate) fn place(items: &[Item]) -> (Vec<usize>, usize) {
    let (offsets, size, _looks) = place_within(items, MEETING_MAX);
    (offsets, size)
}

/// The same, with the number of spans and entries that were looked at.
fn place_within(items: &[Item], most: usize) -> (Vec<usize>, usize, usize) {
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(items[*index].bytes), *index));
    let mut offsets = vec![0; items.len()];
    let mut taken = Taken::new(items);
    let mut meeting = Vec::new();
    let (all, mut size) = (0..taken.steps, 0);
    for index in order {
        let item = items[index];
        let length = align_up(item.bytes);
        if length == 0 {
            continue;
        }
        meeting.clear();
        let offset = if taken.collect((1, all.clone()), &item, most, &mut meeting) {
            meeting.retain(|other: &usize| {
                !item.is_before(&items[*other]) && !items[*other].is_before(&item)
            });
            gap(&mut meeting, length, items, &offsets)
        } else {
            taken.top(1, all.clone(), &item)
        };
        offsets[index] = offset;
        size = size.max(offset + length);
        taken.add(1, all.clone(), &Entry { index, item, end: offset + length });
    }
    (offsets, size, taken.looks)
}

/// The smallest gap of `length` between items, or the place behind them.
fn gap(meeting: &mut Vec<usize>, length: usize, items: &[Item], offsets: &[usize]) -> usize {
    meeting.sort_unstable_by_key(|other| (offsets[*other], *other));
    meeting.dedup();
    let mut best: Option<(usize, usize)> = None;
    let mut end = 0;
    for other in meeting.iter() {
        let offset = offsets[*other];
        let gap = offset.saturating_sub(end);
        if gap >= length && best.is_none_or(|(own, _)| gap < own) {
            best = Some((gap, end));
        }
        end = end.max(offset + align_up(items[*other].bytes));
    }
    best.map_or(end, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(bytes: usize, first: usize, last: usize) -> Item {
        let [mut ended, mut gone] = [Counts::default(); 2];
        (ended[0], gone[0]) = (u32::try_from(first).unwrap(), u32::try_from(last + 1).unwrap());
        Item { bytes, first, last, ended, gone }
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

    #[test]
    fn many_that_live_at_once_cost_a_few_looks_each() {
        let count = 4_000;
        let wide: Vec<Item> = (0..count).map(|step| item(64, step, count)).collect();
        let (offsets, size, looks) = place_within(&wide, 64);
        assert_eq!(size, 64 * count);
        assert_eq!(offsets.iter().collect::<std::collections::BTreeSet<_>>().len(), count);
        // Some 2 * 13 spans each to add, to collect before it is too much, and for the top.
        assert!(looks < count * (8 * 13 + 64), "{looks}");
        // Without a limit it is the square.
        let (_, same, all) = place_within(&wide[..600], usize::MAX);
        let (_, size, few) = place_within(&wide[..600], 32);
        assert!(same == size && all > 5 * few, "{all} {few}");
    }

    proptest! {
        #[test]
        fn what_is_needed_together_does_not_overlap(
            items in prop::collection::vec((0usize..500, 0usize..150, 0usize..90), 0..40),
            most in prop_oneof![Just(MEETING_MAX), 0usize..40],
        ) {
            let items: Vec<Item> =
                items.iter().map(|(size, from, more)| item(*size, *from, from + more)).collect();
            let (offsets, size, _) = place_within(&items, most);
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
                    let meet = item.first <= other.last && other.first <= item.last;
                    prop_assert!(apart || !meet || item.bytes * other.bytes == 0);
                }
            }
        }
    }
}
