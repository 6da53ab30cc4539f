//! Whether messages are near each other in time (device-runtime §3.5, batch alignment): what feeds
//! of the device and nodes that align by time decide by.
//!
//! Each message has a begin and an end, which are equal, and its input an offset that it is never
//! before. The unit is the sender's. Times less their offsets that are at most `interval` apart are
//! near; else the oldest message belongs to nothing that can still come.

/// What is to be done with one message of each input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// They belong together.
    Near,
    /// They do not; the message of this input is the oldest, of the lowest input when several are.
    Oldest(usize),
    /// The message of this input has no time: begin and end differ, or it is before its offset.
    Timeless(usize),
}

/// Looks at the messages: of each its input, its begin and end, and the input's offset.
pub fn nearness(
    messages: impl IntoIterator<Item = (usize, (u64, u64), u64)>,
    interval: u64,
) -> Nearness {
    let mut oldest: Option<(u64, usize)> = None;
    let mut newest = 0;
    for (input, (begin, end), offset) in messages {
        let Some(time) = begin.checked_sub(offset).filter(|_| begin == end) else {
            return Nearness::Timeless(input);
        };
        newest = newest.max(time);
        if oldest.is_none_or(|(least, _)| time < least) {
            oldest = Some((time, input));
        }
    }
    match oldest {
        Some((time, input)) if newest - time > interval => Nearness::Oldest(input),
        _ => Nearness::Near,
    }
}

#[cfg(test)]
mod tests {
    use super::Nearness::{Near, Oldest, Timeless};
    use super::nearness;

    #[test]
    fn v7_39_times_of_two_inputs() {
        let of = |first, second| nearness([(0, (first, first), 0), (1, (second, second), 0)], 5);
        assert_eq!([of(10, 16), of(10, 15), of(16, 10)], [Oldest(0), Near, Oldest(1)]);
        assert_eq!(of(0, u64::MAX), Oldest(0));
    }

    #[test]
    fn offsets_and_times_that_are_none() {
        let of = |begin, end, offset| nearness([(0, (7, 7), 0), (1, (begin, end), offset)], 0);
        assert_eq!([of(9, 9, 2), of(9, 9, 1), of(9, 9, 3)], [Near, Oldest(0), Oldest(1)]);
        assert_eq!([of(9, 10, 2), of(9, 8, 2), of(1, 1, 2)], [Timeless(1); 3]);
        assert_eq!(nearness([], 0), Near);
        assert_eq!(nearness([(0, (3, 3), 0), (1, (1, 1), 0), (2, (1, 1), 0)], 1), Oldest(1));
    }
}
