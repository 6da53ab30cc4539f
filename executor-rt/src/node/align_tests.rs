//! The expected values of udf §7 for the aligner, by their numbers, and those of host §8.1.

use super::{Aligner, Key, LATE_MAX, Lack, Settings};
use crate::proto::InputAlignAttrs;
use sys::clock::MonoTime;

fn settings(max_cache: u32, timeout_ms: Option<u32>) -> Settings {
    Settings { max_cache, timeout_ms, drop: false }
}

fn key(trans_id: u64) -> Key {
    Key { trans_id, label: 0 }
}

/// Messages are numbers here; what is taken comes with its input.
fn take(aligner: &mut Aligner<u64>, key: Key) -> Vec<(usize, u64)> {
    let mut taken = Vec::new();
    aligner.take(key, |input, message| taken.push((input, message)));
    taken
}

/// Pushes and, as the reader does, takes what is complete.
fn push(aligner: &mut Aligner<u64>, input: usize, trans_id: u64) -> Option<Vec<(usize, u64)>> {
    aligner.push(input, key(trans_id), None, trans_id).unwrap();
    let complete = aligner.complete()?;
    Some(take(aligner, complete))
}

#[test]
fn v7_39_limits_of_the_settings() {
    let of = |max, timeout| {
        Settings::of(Some(&InputAlignAttrs {
            align_max_cache_num: max,
            align_timeout: timeout,
            drop_when_not_align: true,
        }))
    };
    assert_eq!(Settings::of(None), Ok(None));
    assert_eq!(of(0, 0), Ok(None));
    let full = Settings { max_cache: 1024, timeout_ms: Some(600_000), drop: true };
    assert_eq!(of(1024, 600_000), Ok(Some(full)));
    assert_eq!(of(1, -1).unwrap().unwrap().timeout_ms, None);
    assert_eq!(of(1, 1).unwrap().unwrap().timeout_ms, Some(1));
    assert!(of(1025, 1).unwrap_err().contains("found 1025, expected 0 to 1024"));
    for timeout in [0, -2, 600_001, i32::MIN] {
        let text = format!("align_timeout: found {timeout}, expected -1 or 1 to 600000");
        assert_eq!(of(4, timeout), Err(text));
    }
}

#[test]
fn v7_40_the_fourth_of_four_queues_completes() {
    let mut aligner = Aligner::new(4, settings(16, None));
    for input in 0..3 {
        assert_eq!(aligner.next_input(), input);
        assert_eq!(push(&mut aligner, input, 7), None);
        assert_eq!(aligner.keys(), 1);
    }
    assert_eq!(push(&mut aligner, 3, 7), Some(vec![(0, 7), (1, 7), (2, 7), (3, 7)]));
    assert_eq!((aligner.keys(), aligner.len(), aligner.next_input()), (0, 0, 0));
    assert_eq!(aligner.push(4, key(1), None, 9), Err(9), "no such input");
}

/// Reads as the reader does, from the input with the fewest cached, until the queues are empty.
fn align(queues: &[&[u64]], max_cache: u32) -> (usize, usize, usize) {
    let mut aligner = Aligner::new(queues.len(), settings(max_cache, None));
    let mut queues: Vec<_> = queues.iter().map(|queue| queue.iter()).collect();
    let (mut aligned, mut most) = (0, 0);
    while let Some(trans_id) = queues[aligner.next_input()].next() {
        let input = aligner.next_input();
        if let Some(set) = push(&mut aligner, input, *trans_id) {
            assert!(set.iter().all(|(_, other)| other == trans_id), "{set:?}");
            aligned += set.len();
        }
        most = most.max(aligner.keys());
    }
    (aligned, aligner.len(), most)
}

#[test]
fn v7_41_rotated_and_interleaved_ids() {
    let (aligned, left, _) = align(&[&[0, 1, 2], &[1, 2, 0], &[2, 0, 1]], 16);
    assert_eq!((aligned, left), (9, 0));
    let others = [0, 0, 3, 4, 1, 2];
    let (aligned, left, most) = align(&[&[1, 2, 3, 4, 0, 0], &others, &others], 16);
    assert_eq!((aligned, left), (18, 0));
    assert!(most <= 4, "{most} open entries");
}

#[test]
fn v7_42_beyond_the_limit_the_lowest_leave() {
    for (limit, entries) in [(256, 258), (10, 12)] {
        let mut aligner = Aligner::new(2, settings(limit, None));
        for trans_id in (0..entries).rev() {
            assert_eq!(push(&mut aligner, 0, trans_id), None);
        }
        for trans_id in [0, 1] {
            assert_eq!(aligner.given_up(None), Some((key(trans_id), Lack::OverLimit)));
            assert_eq!(take(&mut aligner, key(trans_id)), [(0, trans_id)]);
        }
        assert_eq!(aligner.given_up(None), None, "as many as the limit are not over it");
        assert_eq!(aligner.keys(), limit as usize);
    }
}

#[test]
fn v7_43_what_waited_too_long_leaves_layer_by_layer() {
    let start = MonoTime::now();
    let at = |ms| Some(start.add_ms(ms));
    let mut aligner = Aligner::new(2, settings(100, Some(1000)));
    for trans_id in 0..10 {
        for repeat in 0..2 {
            aligner.push(0, key(trans_id), at(repeat), trans_id * 2 + repeat).unwrap();
        }
    }
    assert_eq!((aligner.given_up(at(999)), aligner.next_due()), (None, at(1000)));
    let expired = Some((key(0), Lack::Expired));
    assert_eq!(aligner.given_up(at(1200)), expired);
    assert_eq!((take(&mut aligner, key(0)), aligner.keys()), (vec![(0, 0)], 10));
    assert_eq!(aligner.given_up(at(1200)), expired, "its second message is as old");
    assert_eq!((take(&mut aligner, key(0)), aligner.keys()), (vec![(0, 1)], 9));
    assert_eq!(aligner.next_input(), 1);
    let mut dropped = 0;
    aligner.clear(|_| dropped += 1);
    assert_eq!((dropped, aligner.keys(), aligner.next_input()), (18, 0, 0));
    assert_eq!((aligner.given_up(at(9999)), aligner.next_due()), (None, None));
}

#[test]
fn the_first_too_old_in_order_of_keys_goes_before_one_over_the_limit() {
    let start = MonoTime::now();
    let at = |ms| Some(start.add_ms(ms));
    let mut aligner = Aligner::new(2, settings(1, Some(100)));
    aligner.push(0, key(3), at(0), 3).unwrap();
    aligner.push(0, key(1), at(90), 1).unwrap();
    aligner.push(0, key(2), at(0), 2).unwrap();
    assert_eq!(aligner.given_up(at(50)), Some((key(1), Lack::OverLimit)));
    assert_eq!(aligner.given_up(at(100)), Some((key(2), Lack::Expired)));
}

#[test]
fn repeats_of_a_key_are_matched_in_order_and_labels_apart() {
    let mut aligner = Aligner::new(2, settings(16, None));
    for message in [10, 11] {
        aligner.push(0, key(5), None, message).unwrap();
    }
    let other = Key { trans_id: 5, label: 1 };
    aligner.push(0, other, None, 30).unwrap();
    for message in [20, 21] {
        assert_eq!(aligner.complete(), None);
        aligner.push(1, key(5), None, message).unwrap();
        assert_eq!(aligner.complete(), Some(key(5)));
        assert_eq!(take(&mut aligner, key(5)), [(0, message - 10), (1, message)]);
    }
    assert_eq!((aligner.keys(), aligner.len(), aligner.next_input()), (1, 1, 1));
    aligner.push(1, other, None, 31).unwrap();
    assert_eq!(aligner.complete(), Some(other));
    // A successor takes back all that its predecessor held: several keys can be complete then.
    for (input, message) in [(0, 40), (0, 41), (1, 50), (1, 51)] {
        aligner.push(input, key(9), None, message).unwrap();
    }
    assert_eq!(take(&mut aligner, other), [(0, 30), (1, 31)]);
    assert_eq!(aligner.complete(), Some(key(9)));
    assert_eq!(take(&mut aligner, key(9)), [(0, 40), (1, 50)]);
    assert_eq!(aligner.complete(), Some(key(9)));
    assert_eq!(take(&mut aligner, key(9)), [(0, 41), (1, 51)]);
    assert_eq!((aligner.complete(), aligner.keys()), (None, 0));
}

#[test]
fn while_the_next_input_is_empty_others_are_read_within_the_limit() {
    let mut aligner = Aligner::new(3, settings(2, None));
    let order = |aligner: &Aligner<u64>| {
        let mut order = vec![aligner.next_input()];
        order.extend(std::iter::successors(aligner.next_after(Some(order[0])), |input| {
            aligner.next_after(Some(*input))
        }));
        order
    };
    assert_eq!(order(&aligner), [0, 1, 2]);
    push(&mut aligner, 0, 1);
    assert_eq!(order(&aligner), [1, 2, 0]);
    push(&mut aligner, 0, 2);
    assert_eq!(order(&aligner), [1, 2], "a third key would be one too many");
    push(&mut aligner, 2, 2);
    assert_eq!(order(&aligner), [1]);
    push(&mut aligner, 1, 2);
    assert_eq!(order(&aligner), [1, 2, 0]);
}

#[test]
fn repeats_can_not_fill_the_cache() {
    let mut aligner = Aligner::new(2, settings(4, None));
    for message in 0..5 {
        for (input, trans_id) in [(0, 1), (1, 2)] {
            assert_eq!(aligner.given_up(None), None);
            assert_eq!(aligner.next_input(), input);
            aligner.push(input, key(trans_id), None, message).unwrap();
        }
    }
    assert_eq!(aligner.given_up(None), Some((key(1), Lack::OverLimit)), "two keys, but full");
    assert_eq!(take(&mut aligner, key(1)), [(0, 0)]);
    assert_eq!((aligner.given_up(None), aligner.next_input()), (None, 0));
}

#[test]
fn what_comes_after_its_key_was_given_up_is_late_once() {
    let mut aligner = Aligner::new(3, settings(16, None));
    for message in [10, 11] {
        aligner.push(0, key(5), None, message).unwrap();
        aligner.push(2, key(5), None, message + 10).unwrap();
    }
    assert!(!aligner.is_late(1, key(5)));
    assert_eq!(take(&mut aligner, key(5)), [(0, 10), (2, 20)]);
    assert_eq!(take(&mut aligner, key(5)), [(0, 11), (2, 21)]);
    let label = Key { trans_id: 5, label: 1 };
    let others =
        [aligner.is_late(1, key(4)), aligner.is_late(1, label), aligner.is_late(0, key(5))];
    assert_eq!(others, [false; 3]);
    let three = [1, 1, 1].map(|input| aligner.is_late(input, key(5)));
    assert_eq!(three, [true, true, false], "one for each set that lacked it");
    // A whole set lacks nothing; what there is nothing of was not given up.
    (0..3).for_each(|input| aligner.push(input, key(6), None, 1).unwrap());
    assert_eq!(take(&mut aligner, key(6)).len(), 3);
    assert!((0..3).all(|input| !aligner.is_late(input, key(6))));
    aligner.push(1, key(7), None, 1).unwrap();
    take(&mut aligner, key(7));
    assert!(aligner.is_late(0, key(7)));
    aligner.clear(|_| ());
    assert!(!aligner.is_late(2, key(7)), "nothing is remembered of before");
}

#[test]
fn the_oldest_that_were_given_up_are_forgotten() {
    let mut aligner = Aligner::new(2, settings(16, None));
    let many = LATE_MAX as u64 + 10;
    // Downwards: the lowest is the last.
    for trans_id in (0..many).rev() {
        aligner.push(0, key(trans_id), None, 0).unwrap();
        take(&mut aligner, key(trans_id));
    }
    let late = (0..many).filter(|trans_id| aligner.is_late(1, key(*trans_id)));
    assert!(late.eq(0..LATE_MAX as u64));
    assert_eq!(aligner.given_up.capacity(), LATE_MAX);
}

/// Everything that waits, in the order in which it came: input, key, when, message.
type Plain = Vec<(usize, Key, MonoTime, u64)>;

const INPUTS: usize = 3;
const LIMIT_MS: u32 = 20;

fn of_key(plain: &Plain, key: Key, input: usize) -> Option<usize> {
    plain.iter().position(|waits| (waits.0, waits.1) == (input, key))
}

fn keys_of(plain: &Plain) -> std::collections::BTreeSet<Key> {
    plain.iter().map(|waits| waits.1).collect()
}

fn complete_of(plain: &Plain) -> Option<Key> {
    let all = |key: &Key| (0..INPUTS).all(|input| of_key(plain, *key, input).is_some());
    keys_of(plain).into_iter().find(all)
}

fn expired_of(plain: &Plain, now: MonoTime) -> Option<Key> {
    let late = |key: &Key| {
        let first = plain.iter().find(|waits| waits.1 == *key);
        first.is_some_and(|first| first.2.add_ms(u64::from(LIMIT_MS)).is_past(now))
    };
    keys_of(plain).into_iter().find(late)
}

proptest::proptest! {
    /// What is chosen is what looking at everything chooses, however many keys are complete.
    #[test]
    fn the_choice_is_that_of_looking_at_everything(
        steps in proptest::collection::vec((0..INPUTS, 0..7u64, 0..4u32, 0..3u8), 1..200)
    ) {
        let start = MonoTime::now();
        let mut aligner = Aligner::new(INPUTS, settings(8, Some(LIMIT_MS)));
        let mut plain = Plain::new();
        for (step, (input, trans_id, label, what)) in (0u64..).zip(steps) {
            let now = start.add_ms(step);
            let key = Key { trans_id, label: label / 3 };
            let many = plain.iter().filter(|waits| waits.0 == input).count() >= 9;
            if !many {
                // A key is as old as its first message.
                let first = plain.iter().find(|waits| waits.1 == key);
                let since = first.map_or(now, |first| first.2);
                plain.push((input, key, since, step));
                proptest::prop_assert!(aligner.push(input, key, Some(now), step).is_ok());
            }
            let complete = complete_of(&plain);
            proptest::prop_assert_eq!(aligner.complete(), complete);
            proptest::prop_assert_eq!(aligner.keys(), keys_of(&plain).len());
            let expired = expired_of(&plain, now).map(|key| (key, Lack::Expired));
            let given_up = aligner.given_up(Some(now));
            let given_up = given_up.filter(|(_, lack)| *lack == Lack::Expired);
            proptest::prop_assert_eq!(given_up, expired);
            // Mostly what is complete goes, sometimes what expired, sometimes nothing.
            let goes = if what == 0 { None } else { complete.or(expired.map(|(key, _)| key)) };
            let lowest = plain.iter().map(|waits| waits.1).min();
            let goes = goes.or(lowest.filter(|_| many));
            let Some(goes) = goes else { continue };
            let mut expected = Vec::new();
            for input in 0..INPUTS {
                if let Some(at) = of_key(&plain, goes, input) {
                    expected.push((input, plain.remove(at).3));
                }
            }
            proptest::prop_assert_eq!(take(&mut aligner, goes), expected);
        }
    }
}
