//! Tests of streams: what opens, what it computes with teams, the dispatcher by itself.

use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;
use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::engine::{Input, Model};
use crate::ops::Broadcast;
use crate::ops::add::Add;
use crate::ops::testing::noise;
use crate::program::{OmError, Place, Writer};
use crate::shape::Shape;
use crate::tensor::TensorInfo;

/// A task of a drawn program: its stream, the slots that it reads, the one that it writes.
#[derive(Clone, Debug)]
struct Drawn {
    stream: usize,
    reads: [usize; 2],
    writes: usize,
}

const SLOTS: usize = 6;

fn drawn(streams: usize) -> impl Strategy<Value = Vec<Drawn>> {
    let one = (0..streams, [0..SLOTS, 0..SLOTS], 0..SLOTS);
    let one = one.prop_map(|(stream, reads, writes)| Drawn { stream, reads, writes });
    prop::collection::vec(one, 1..24)
}

/// Whether one of two tasks writes what the other one reads or writes. Slots that the first tasks
/// have not written are read from the input.
fn meet(tasks: &[Drawn], a: usize, b: usize) -> bool {
    let reads = |task: usize| {
        let written = move |slot: &usize| tasks[..task].iter().any(|own| own.writes == *slot);
        let kept = tasks[task].reads.into_iter().filter(written);
        kept.filter(|slot| *slot != tasks[task].writes).collect::<Vec<_>>()
    };
    let (from, to) = (tasks[a].writes, tasks[b].writes);
    from == to || reads(b).contains(&from) || reads(a).contains(&to)
}

/// All events that these tasks need, and more.
fn events(tasks: &[Drawn]) -> Vec<(usize, usize)> {
    let pairs = (0..tasks.len()).flat_map(|b| (0..b).map(move |a| (b, a)));
    pairs.filter(|(b, a)| tasks[*a].stream != tasks[*b].stream && meet(tasks, *a, *b)).collect()
}

fn info() -> TensorInfo {
    TensorInfo::new(DataType::FLOAT, Shape::new(&[40]).unwrap())
}

/// Each task adds two slots into a third one; the last one is copied to the output.
fn program(tasks: &[Drawn], events: &[(usize, usize)]) -> Result<Model<AlignedBytes>, OmError> {
    let (mut writer, x) = (Writer::new(), info());
    let add = Add::new(Broadcast::Numpy);
    let (input, output) =
        (writer.tensor("x", &x, Place::Input(0)), writer.tensor("y", &x, Place::Output(0)));
    writer.input(input);
    writer.output(output);
    let mut slots = [input; SLOTS];
    for (index, task) in tasks.iter().enumerate() {
        let read = |slot: usize| if slot == task.writes { input } else { slots[slot] };
        let operands = task.reads.map(read);
        let to = writer.tensor("slot", &x, Place::Arena(192 * task.writes));
        writer.task("add", &add, &operands, &[to], (0, 0));
        let own = events.iter().filter(|(task, _)| *task == index);
        let own: Vec<u32> = own.map(|(_, after)| u32::try_from(*after).unwrap()).collect();
        writer.order(u32::try_from(task.stream).unwrap(), &own);
        slots[task.writes] = to;
    }
    let last = tasks.last().unwrap();
    let (from, stream) = (slots[last.writes], u32::try_from(last.stream).unwrap());
    writer.task("copy", &add, &[from, input], &[output], (0, 0));
    writer.order(stream, &[]);
    Model::load(writer.finish(192 * SLOTS).unwrap())
}

/// Output and arena after a run.
fn results(model: &Model<AlignedBytes>, team: Option<&Team>) -> (AlignedBytes, AlignedBytes) {
    let bytes: Vec<u8> = noise(40, 3).iter().flat_map(|value| value.to_le_bytes()).collect();
    let x = AlignedBytes::copy_of(&bytes);
    let (mut y, mut arena) = (AlignedBytes::zeroed(160), AlignedBytes::zeroed(192 * SLOTS));
    let mut seen = vec![0; model.program().tasks().len()];
    let inputs = [Input { info: info(), bytes: &x }];
    model.run_with(&inputs, &mut [&mut y], &mut arena, team, |task| seen[task] += 1).unwrap();
    assert!(seen.iter().all(|times| *times == 1), "each task ends once");
    (y, arena)
}

/// Whether events and streams order every two tasks that meet, by looking at all.
fn is_ordered(tasks: &[Drawn], events: &[(usize, usize)]) -> bool {
    let count = tasks.len();
    let mut before = vec![vec![false; count]; count];
    for b in 0..count {
        for a in (0..b).rev() {
            let direct = tasks[a].stream == tasks[b].stream || events.contains(&(b, a));
            let through = (a + 1..b).any(|c| before[b][c] && before[c][a]);
            before[b][a] = direct || through;
        }
    }
    (0..count).all(|b| (0..b).all(|a| before[b][a] || !meet(tasks, a, b)))
}

fn teams() -> [Team; 3] {
    [2, 3, 4].map(|threads| Team::new(threads, || {}).unwrap())
}

#[test]
fn any_streams_and_any_team_give_the_bits_of_one_thread() {
    let teams = teams();
    proptest!(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }),
        |(tasks in (1usize..=4).prop_flat_map(drawn))| {
            let model = program(&tasks, &events(&tasks)).unwrap();
            let one: Vec<Drawn> =
                tasks.iter().map(|task| Drawn { stream: 0, ..task.clone() }).collect();
            let expected = results(&program(&one, &[]).unwrap(), None);
            for team in std::iter::once(None).chain(teams.iter().map(Some)) {
                let found = results(&model, team);
                prop_assert!(found.0[..] == expected.0[..] && found.1[..] == expected.1[..]);
            }
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 2000 }))]

    #[test]
    fn a_program_opens_if_and_only_if_all_that_meets_is_ordered(
        tasks in (2usize..=8).prop_flat_map(drawn),
        left_out in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut events = events(&tasks);
        for index in left_out {
            if !events.is_empty() {
                events.remove(index.index(events.len()));
            }
        }
        let opened = program(&tasks, &events).map(|_| ()).map_err(|error| error.to_string());
        prop_assert_eq!(opened.is_ok(), is_ordered(&tasks, &events), "{:?}", opened);
        if let Err(error) = opened {
            prop_assert!(error.contains("no event orders this and task"), "{}", error);
        }
    }
}

/// Tasks in file order: stream, and what it begins after.
fn region(tasks: &[(usize, &[usize])]) -> Region {
    let drawn: Vec<Drawn> = tasks
        .iter()
        .map(|(stream, _)| Drawn { stream: *stream, reads: [0; 2], writes: 0 })
        .collect();
    let events: Vec<(usize, usize)> = tasks
        .iter()
        .enumerate()
        .flat_map(|(task, (_, after))| after.iter().map(move |after| (task, *after)))
        .collect();
    let mut all = Vec::new();
    for (index, task) in drawn.iter().enumerate() {
        let after = events.iter().filter(|(own, _)| *own == index).map(|(_, after)| *after);
        all.push(Task::nothing(task.stream, after.collect()));
    }
    Region::new(&all, &(0..all.len()))
}

#[test]
fn branches_run_at_once() {
    let region = region(&[(0, &[]), (0, &[]), (1, &[0]), (0, &[2])]);
    for team in teams() {
        // The two branches wait for each other.
        let both = Barrier::new(2);
        let order = Mutex::new(Vec::new());
        let ran = region.run(&team, &|task| {
            if task == 1 || task == 2 {
                both.wait();
            }
            order.lock().unwrap().push(task);
            Ok(())
        });
        assert_eq!(ran, Ok(()));
        let order = order.into_inner().unwrap();
        assert_eq!((order[0], order[3], order.len()), (0, 3, 4));
    }
}

#[test]
fn a_busy_team_and_one_thread_end_too() {
    let region = region(&[(1, &[]), (0, &[0]), (1, &[1]), (2, &[2]), (0, &[3])]);
    let order = Mutex::new(Vec::new());
    let team = Team::new(2, || {}).unwrap();
    let own = thread::current().id();
    team.call(&|| {
        if thread::current().id() == own {
            let push = |task| {
                order.lock().unwrap().push(task);
                Ok(())
            };
            assert_eq!(region.run(&team, &push), Ok(()));
        }
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_fault_ends_the_run_with_its_task() {
    let region = region(&[(0, &[]), (0, &[]), (1, &[]), (1, &[]), (0, &[3])]);
    for team in teams() {
        for failing in 0..5 {
            let last = AtomicUsize::new(0);
            let ran = region.run(&team, &|task| {
                last.fetch_max(usize::from(task == 4), Ordering::Relaxed);
                if task == failing { Err(Fault::Memory) } else { Ok(()) }
            });
            assert_eq!(ran, Err((failing, Fault::Memory)));
            assert_eq!(last.into_inner() == 1, failing == 4, "what comes after it is not run");
        }
        let all = region.run(&team, &|_| Err(Fault::Memory)).unwrap_err();
        assert!(all.0 == 0 || all.0 == 2, "the first of a stream");
    }
}

#[test]
fn a_panic_ends_the_run() {
    let region = region(&[(0, &[]), (1, &[]), (0, &[1]), (1, &[2])]);
    for team in teams() {
        for failing in 0..4 {
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                region.run(&team, &|task| {
                    assert_ne!(task, failing, "as asked");
                    Ok(())
                })
            }));
            assert!(ran.is_err());
        }
        assert_eq!(region.run(&team, &|_| Ok(())), Ok(()), "the team lives on");
    }
}

/// Many short runs: what a task waits for has ended, and what it wrote without atomics is there.
#[test]
fn what_was_waited_for_is_there() {
    let rounds = if cfg!(miri) { 3 } else { 3000 };
    let tasks: &[(usize, &[usize])] = &[
        (0, &[]),
        (1, &[]),
        (2, &[0, 1]),
        (0, &[1]),
        (1, &[2]),
        (3, &[3]),
        (2, &[3, 5]),
        (0, &[4, 6]),
        (3, &[4]),
        (1, &[7]),
    ];
    let region = region(tasks);
    for team in teams() {
        let ended: Vec<AtomicU64> = tasks.iter().map(|_| AtomicU64::new(0)).collect();
        for round in 1..=rounds {
            let ran = region.run(&team, &|task| {
                let (stream, after) = tasks[task];
                let same = tasks[..task].iter().enumerate().filter(|(_, own)| own.0 == stream);
                for before in same.map(|(own, _)| own).chain(after.iter().copied()) {
                    assert_eq!(ended[before].load(Ordering::Relaxed), round, "{before} {task}");
                }
                if round % 512 == 0 {
                    // Longer than members look: they leave, and the caller sleeps.
                    thread::park_timeout(std::time::Duration::from_millis(1));
                }
                assert_eq!(ended[task].swap(round, Ordering::Relaxed), round - 1);
                Ok(())
            });
            assert_eq!(ran, Ok(()));
        }
    }
}
