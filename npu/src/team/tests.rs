//! Tests of the team: every part once, late and sleeping members, panics, many short calls.

use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;

use super::*;

fn team(threads: usize) -> Team {
    Team::new(threads, || {}).unwrap()
}

#[test]
fn each_part_is_dealt_once_and_knows_its_place() {
    let (alone, four) = (team(1), team(4));
    for team in [None, Some(&alone), Some(&four)] {
        for (count, size) in [(1000, 1), (1000, 7), (5, 8), (0, 4), (64, 64), (65, 64)] {
            let mut out = vec![usize::MAX; count];
            deal(team, &mut out, (size, 1), |first, part| {
                for (index, place) in part.iter_mut().enumerate() {
                    assert_eq!(*place, usize::MAX);
                    *place = first * size + index;
                }
            });
            assert!(out.iter().enumerate().all(|(index, found)| index == *found));
        }
    }
}

#[test]
fn small_parts_stay_with_the_caller() {
    let own = thread::current().id();
    let mut out = vec![0u8; 100];
    deal(Some(&team(3)), &mut out, (51, 0), |first, part| {
        assert_eq!((first, part.len(), thread::current().id()), (0, 100, own));
    });
}

#[test]
fn members_come_in_and_begin_with_what_they_were_told() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let team = Team::new(3, || {
        BEGUN.fetch_add(1, Ordering::Relaxed);
    });
    let team = team.unwrap();
    assert_eq!((BEGUN.load(Ordering::Relaxed), team.threads()), (2, 3));
    // Three that wait for each other: all of them are within at once.
    let all = Barrier::new(3);
    team.call(&|| {
        all.wait();
    });
}

#[test]
fn a_call_within_a_call_and_a_second_caller_run_alone() {
    let team = team(2);
    let (inner, both) = (AtomicUsize::new(0), Barrier::new(2));
    team.call(&|| {
        both.wait();
        team.call(&|| {
            inner.fetch_add(1, Ordering::Relaxed);
        });
        both.wait();
    });
    assert_eq!(inner.load(Ordering::Relaxed), 2, "each of two calls its own once");
}

#[test]
fn many_short_calls_of_several_callers() {
    let team = team(3);
    thread::scope(|scope| {
        for caller in 0..3u64 {
            let team = &team;
            scope.spawn(move || {
                let mut out = vec![0u64; 64];
                for round in 0..if cfg!(miri) { 20 } else { 20_000 } {
                    deal(Some(team), &mut out, (1, 1), |first, part| {
                        for (index, place) in part.iter_mut().enumerate() {
                            *place += caller + (first + index) as u64;
                        }
                    });
                    if round % 4096 == 0 {
                        // Members may fall asleep.
                        thread::park_timeout(std::time::Duration::from_millis(1));
                    }
                }
                let rounds = if cfg!(miri) { 20 } else { 20_000 };
                let right = |(index, sum): (usize, &u64)| *sum == rounds * (caller + index as u64);
                assert!(out.iter().enumerate().all(right));
            });
        }
    });
}

#[test]
fn a_panic_of_a_member_is_the_callers() {
    let team = team(2);
    let (own, both) = (thread::current().id(), Barrier::new(2));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        team.call(&|| {
            both.wait();
            assert_eq!(thread::current().id(), own, "a member");
        });
    }));
    assert!(caught.is_err());
    let count = AtomicUsize::new(0);
    let both = Barrier::new(2);
    team.call(&|| {
        both.wait();
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(count.into_inner(), 2, "the team lives on");
}

#[test]
fn the_limit_of_instructions_holds_for_members() {
    let team = team(2);
    isa::at_most(isa::Isa::Portable, || {
        let mut out = [isa::Isa::Avx512; 8];
        deal(Some(&team), &mut out, (1, 1), |_, part| part.fill(isa::limit()));
        assert_eq!(out, [isa::Isa::Portable; 8]);
    });
}

#[test]
fn parts_are_cut_at_the_borders_of_planes() {
    let pieces = |first: usize, units: usize| {
        let mut part = vec![0u8; units * 2];
        let mut seen = Vec::new();
        planes(first, &mut part, (4, 2), |plane, row, own| seen.push((plane, row, own.len() / 2)));
        seen
    };
    assert_eq!(pieces(0, 12), [(0, 0, 12)]);
    assert_eq!(pieces(3, 10), [(0, 3, 1), (1, 0, 8), (3, 0, 1)]);
    assert_eq!(pieces(5, 2), [(1, 1, 2)]);
    assert_eq!(pieces(5, 0), []);
}
