//! What happens before what: tasks of a stream one after the other, events between streams.
//!
//! A task knows of each stream how many tasks have ended when it begins (a vector clock). Where all
//! earlier tasks have ended before any later one begins, a program is cut into segments.

use std::ops::Range;

use crate::program::STREAMS_MAX;
use crate::program::open::Task;

/// See the module.
#[derive(Debug)]
pub(super) struct Order {
    /// Of each task: its stream, and how many tasks of each stream have ended when it begins; of
    /// its own stream those are all before it.
    tasks: Vec<(usize, [u32; STREAMS_MAX])>,
    /// Tasks of each stream, in order.
    streams: [Vec<usize>; STREAMS_MAX],
}

/// Tasks between two points where everything before has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) tasks: Range<usize>,
    /// They are of more than one stream.
    pub(crate) several: bool,
}

impl Order {
    /// Of tasks whose events name earlier ones.
    pub(super) fn of(tasks: &[Task]) -> Self {
        let mut own = Self { tasks: Vec::new(), streams: Default::default() };
        for (index, task) in tasks.iter().enumerate() {
            let mut ended = [0; STREAMS_MAX];
            for before in task.after.iter().chain(own.streams[task.stream].last()) {
                let (stream, earlier) = &own.tasks[*before];
                for (count, earlier) in ended.iter_mut().zip(earlier) {
                    *count = (*count).max(*earlier);
                }
                ended[*stream] = ended[*stream].max(earlier[*stream] + 1);
            }
            own.tasks.push((task.stream, ended));
            own.streams[task.stream].push(index);
        }
        own
    }

    /// A task's stream, and its number there.
    pub(super) fn number(&self, task: usize) -> (usize, u32) {
        let (stream, ended) = &self.tasks[task];
        (*stream, ended[*stream])
    }

    /// The task with this number on a stream.
    pub(super) fn task(&self, stream: usize, number: u32) -> usize {
        self.streams[stream][number as usize]
    }

    /// How many tasks of each stream have ended when a task begins.
    pub(super) fn ended(&self, task: usize) -> &[u32; STREAMS_MAX] {
        &self.tasks[task].1
    }

    /// The parts of the program; neighbours of one stream each are one.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let (mut done, mut begin) = ([0; STREAMS_MAX], 0);
        for end in 1..=self.tasks.len() {
            let (stream, _) = self.tasks[end - 1];
            done[stream] += 1;
            if !self.is_cut(&done) {
                continue;
            }
            let of = |task: &(usize, _)| task.0;
            let several = self.tasks[begin..end].iter().any(|task| of(task) != stream);
            match segments.last_mut().filter(|last| !last.several && !several) {
                Some(last) => last.tasks.end = end,
                None => segments.push(Segment { tasks: begin..end, several }),
            }
            begin = end;
        }
        segments
    }

    /// Whether everything else begins after the first so many tasks of each stream.
    fn is_cut(&self, done: &[u32; STREAMS_MAX]) -> bool {
        let next = |(tasks, done): (&Vec<usize>, &u32)| tasks.get(*done as usize).copied();
        let mut firsts = self.streams.iter().zip(done).filter_map(next);
        firsts.all(|first| self.ended(first).iter().zip(done).all(|(ended, done)| ended >= done))
    }
}
