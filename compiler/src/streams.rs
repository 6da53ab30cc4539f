//! Streams: which tasks run beside one another.
//!
//! The tasks stand in an order in which one thread can run them. A *window* of them, neighbours, is
//! put on several streams where that ends sooner, by estimates, than one after the other, shared by
//! a team of as many threads. All others are on stream 0. A window begins when everything before it
//! has ended, and what follows begins when it has ended; so a program that gains nothing stays a
//! row. Windows are chosen so that the sum of all estimates is least. The same tasks give the same
//! streams.

use std::ops::Range;

use npu::program::STREAMS_MAX;
use npu::team::{WAKING, shared};

/// Longest window, in tasks.
const WINDOW: usize = 64;

/// A window's estimate is taken for so many tenths of it, and a call of the team.
const MARGIN: u64 = 11;

/// What it costs to wait for a task of another stream.
const EVENT: u64 = WAKING as u64 / 4;

/// What the choice depends on, of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    /// [`npu::team::cost`].
    pub(crate) cost: usize,
    /// Tasks whose results it reads, all earlier ones.
    pub(crate) reads: Vec<usize>,
}

/// Counts of tasks by stream.
pub(crate) type Counts = [u32; STREAMS_MAX];

/// A task that has its stream.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    pub(crate) stream: usize,
    /// Tasks of other streams that it begins after and that no other one says already, ascending.
    pub(crate) after: Vec<usize>,
    /// How many tasks of each stream have ended when it begins: of its own, all before it.
    pub(crate) ended: Counts,
    /// Tasks that may run beside it: those of its window, or itself.
    pub(crate) window: Range<usize>,
    /// It could run beside the task before it, but is left behind that.
    pub(crate) left: bool,
}

impl Streamed {
    /// No task runs beside it.
    fn is_alone(&self) -> bool {
        self.window.len() == 1
    }
}

impl std::fmt::Display for Streamed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.is_alone() {
            write!(f, ", stream {}", self.stream)?;
        }
        for (index, task) in self.after.iter().enumerate() {
            write!(f, "{} {task}", if index == 0 { " after task" } else { "," })?;
        }
        if self.left {
            f.write_str(
                ", behind the task before it: a team that shares both, or one thread, ends them \
                 sooner than two streams",
            )?;
        }
        Ok(())
    }
}

/// Puts tasks on so many streams at most.
pub(crate) fn assign(work: &[Work], streams: usize) -> Vec<Streamed> {
    let streams = streams.clamp(1, STREAMS_MAX);
    let windows = if streams == 1 { Vec::new() } else { windows(work, streams) };
    let mut own = Assigned::default();
    for window in windows {
        own.row(work, own.tasks.len()..window.start, streams);
        own.window(work, &window, streams);
    }
    own.row(work, own.tasks.len()..work.len(), streams);
    own.tasks
}

/// Tasks that have their streams.
#[derive(Default)]
struct Assigned {
    tasks: Vec<Streamed>,
    /// The last one of each stream.
    last: [Option<usize>; STREAMS_MAX],
    /// The last ones of all streams that the part before had.
    front: Vec<usize>,
}

impl Assigned {
    fn window(&mut self, work: &[Work], window: &Range<usize>, streams: usize) {
        let mut lanes = Lanes::new(streams);
        let mut last = [None; STREAMS_MAX];
        for task in window.clone() {
            let stream = lanes.add(work, task, window.start);
            let first = last[stream].replace(task).is_none();
            let before = if first { &self.front[..] } else { &[] };
            let after = work[task].reads.iter().chain(before).copied().collect();
            self.push(stream, after, window.clone(), false);
        }
        self.front = last.into_iter().flatten().collect();
    }

    /// Tasks one after the other, on stream 0.
    fn row(&mut self, work: &[Work], tasks: Range<usize>, streams: usize) {
        for task in tasks {
            let beside = task.checked_sub(1).filter(|before| self.tasks[*before].is_alone());
            let reads = |before: usize| work[task].reads.contains(&before);
            let left = streams > 1 && beside.is_some_and(|before| !reads(before));
            let front = std::mem::replace(&mut self.front, vec![task]);
            self.push(0, front, task..task + 1, left);
        }
    }

    /// Adds the next task, which begins after these.
    fn push(&mut self, stream: usize, mut after: Vec<usize>, window: Range<usize>, left: bool) {
        let (tasks, mut ended) = (&self.tasks, Counts::default());
        let mut join = |task: usize| {
            let of: &Streamed = &tasks[task];
            if ended[of.stream] > of.ended[of.stream] {
                return false;
            }
            for (count, own) in ended.iter_mut().zip(&of.ended) {
                *count = (*count).max(*own);
            }
            ended[of.stream] = ended[of.stream].max(of.ended[of.stream] + 1);
            true
        };
        let _own = self.last[stream].is_some_and(&mut join);
        // The latest first: no earlier one says what a later one does.
        after.sort_unstable_by(|a, b| b.cmp(a));
        after.retain(|task| join(*task));
        after.reverse();
        self.last[stream] = Some(self.tasks.len());
        self.tasks.push(Streamed { stream, after, ended, window, left });
    }
}

/// The windows, in order.
fn windows(work: &[Work], streams: usize) -> Vec<Range<usize>> {
    // Of the tasks before each: the least estimate, and where its last window begins, if it ends
    // with one.
    let mut best: Vec<(u64, Option<usize>)> = vec![(u64::MAX, None); work.len() + 1];
    best[0].0 = 0;
    for begin in 0..work.len() {
        let so_far = best[begin].0;
        let alone = so_far.saturating_add(shared(work[begin].cost, streams) as u64);
        if alone <= best[begin + 1].0 {
            best[begin + 1] = (alone, None);
        }
        let mut lanes = Lanes::new(streams);
        for task in begin..work.len().min(begin + WINDOW) {
            lanes.add(work, task, begin);
            let all = (lanes.end() / 10).saturating_mul(MARGIN).saturating_add(WAKING as u64);
            let all = so_far.saturating_add(all);
            if lanes.used() > 1 && all < best[task + 1].0 {
                best[task + 1] = (all, Some(begin));
            }
        }
    }
    let (mut windows, mut end) = (Vec::new(), work.len());
    while end > 0 {
        let begin = best[end].1;
        windows.extend(begin.map(|begin| begin..end));
        end = begin.unwrap_or(end - 1);
    }
    windows.reverse();
    windows
}

/// The streams of a window while tasks are put on them: each where it can begin first.
struct Lanes {
    ends: Vec<u64>,
    /// Stream and end of each task.
    tasks: Vec<(usize, u64)>,
}

impl Lanes {
    fn new(streams: usize) -> Self {
        Self { ends: vec![0; streams], tasks: Vec::new() }
    }

    /// Adds the next task of a window that begins at `begin`; its stream.
    fn add(&mut self, work: &[Work], task: usize, begin: usize) -> usize {
        let mut read = [0; STREAMS_MAX];
        for own in work[task].reads.iter().filter_map(|read| read.checked_sub(begin)) {
            let (stream, end) = self.tasks[own];
            read[stream] = end.max(read[stream]);
        }
        let start = |stream: usize| {
            let other = |(of, end): (usize, &u64)| {
                if of == stream || *end == 0 { *end } else { end.saturating_add(EVENT) }
            };
            let read = read.iter().enumerate().map(other).max();
            read.unwrap_or(0).max(self.ends[stream])
        };
        // Of those that can begin at once, the one that waits least before.
        let (stream, from) = (0..self.ends.len())
            .map(|stream| (stream, start(stream)))
            .min_by_key(|(stream, from)| (*from, from - self.ends[*stream], *stream))
            .unwrap_or((0, 0));
        let end = from.saturating_add(work[task].cost.max(1) as u64);
        self.ends[stream] = end;
        self.tasks.push((stream, end));
        stream
    }

    fn end(&self) -> u64 {
        self.ends.iter().copied().max().unwrap_or(0)
    }

    fn used(&self) -> usize {
        self.ends.iter().filter(|end| **end > 0).count()
    }
}

#[cfg(test)]
mod tests;
