//! Sets by time, against what can be said of them without the rule.

use std::collections::VecDeque;

use executor_core::near::{Nearness, nearness};
use proptest::prelude::*;

use super::Settings;
use crate::proto::InputAlignTime;

/// What became of the messages of each input, by their number.
#[derive(Default, Debug)]
struct Outcome {
    sets: Vec<Vec<usize>>,
    /// Input, number, and of each input the first message that was there still.
    left: Vec<(usize, usize, Vec<usize>)>,
}

/// The reader's way: one message of each input in hand; the oldest leaves.
fn align(times: &[Vec<u64>], interval: u64) -> Outcome {
    let mut queues: Vec<VecDeque<usize>> =
        times.iter().map(|of_input| (0..of_input.len()).collect()).collect();
    let mut outcome = Outcome::default();
    loop {
        let heads: Option<Vec<usize>> = queues.iter().map(|queue| queue.front().copied()).collect();
        let Some(heads) = heads else { return outcome };
        let messages = heads.iter().zip(times).enumerate().map(|(input, (number, of_input))| {
            let time = of_input[*number];
            (input, (time, time), 0)
        });
        match nearness(messages, interval) {
            Nearness::Near => {
                for queue in &mut queues {
                    queue.pop_front();
                }
                outcome.sets.push(heads);
            }
            Nearness::Oldest(input) => {
                queues[input].pop_front();
                outcome.left.push((input, heads[input], heads));
            }
            Nearness::Timeless(input) => panic!("input {input} has a time"),
        }
    }
}

/// Whether some message of each input, from these on, is near `time`: with times that grow, and a
/// set of any messages at hand.
fn can_be_near(times: &[Vec<u64>], from: &[usize], of: (usize, u64), interval: u64) -> bool {
    // A window of the interval's length that contains the message's time, wherever it begins.
    (of.1.saturating_sub(interval)..=of.1).any(|begin| {
        times.iter().zip(from).enumerate().all(|(input, (of_input, first))| {
            let mut rest = of_input.iter().skip(*first);
            input == of.0 || rest.any(|time| (begin..=begin + interval).contains(time))
        })
    })
}

proptest! {
    /// Every set is near; what left could not be near anything; all that remains lacks an input.
    #[test]
    fn sets_are_near_and_what_leaves_fits_nothing_any_more(
        steps in prop::collection::vec(prop::collection::vec(0_u64..12, 0..12), 1..4),
        interval in 0_u64..8,
    ) {
        let times: Vec<Vec<u64>> = steps
            .iter()
            .map(|steps| steps.iter().scan(0, |at, step| { *at += step; Some(*at) }).collect())
            .collect();
        let Outcome { sets, left } = align(&times, interval);
        for set in &sets {
            let of_set = || set.iter().zip(&times).map(|(number, of_input)| of_input[*number]);
            prop_assert!(of_set().max().unwrap() - of_set().min().unwrap() <= interval);
        }
        for (input, number, heads) in &left {
            let message = (*input, times[*input][*number]);
            prop_assert!(!can_be_near(&times, heads, message, interval), "{message:?} {heads:?}");
        }
        // Each message is in one place at most, in order, and one input is used up.
        let mut used = Vec::new();
        for (input, of_input) in times.iter().enumerate() {
            let mut numbers: Vec<usize> = sets.iter().map(|set| set[input]).collect();
            numbers.extend(left.iter().filter(|own| own.0 == input).map(|own| own.1));
            numbers.sort_unstable();
            prop_assert!(numbers.iter().copied().eq(0..numbers.len()));
            used.push(numbers.len() == of_input.len());
        }
        prop_assert!(used.contains(&true));
    }
}

#[test]
fn settings_of_a_request() {
    let attrs = |timeout_ms, offsets: &[u64]| {
        let attrs = InputAlignTime { interval: 5, offsets: offsets.to_vec(), timeout_ms };
        Settings::of(Some(&attrs), 2)
    };
    assert_eq!(Settings::of(None, 2), Ok(None));
    let settings = attrs(0, &[]).unwrap().unwrap();
    assert_eq!((settings.offsets.as_ref(), settings.timeout_ms), (&[0, 0][..], None));
    let settings = attrs(600_000, &[1, 2]).unwrap().unwrap();
    assert_eq!((settings.offsets.as_ref(), settings.timeout_ms), (&[1, 2][..], Some(600_000)));
    assert_eq!(attrs(0, &[1]), Err("1 offsets for 2 inputs".to_owned()));
    assert!(attrs(600_001, &[]).unwrap_err().contains("found 600001"));
}
