//! What a run cost: processor time and memory of the flow's processes, and where the time went.

use dflow::Session;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// Times of blocks of pages: the flow's and the package's, in turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Blocks {
    pages: f64,
    /// Milliseconds of a block, ours and theirs.
    millis: Vec<[f64; 2]>,
}

impl Blocks {
    /// Adds a block of some pages.
    pub fn add(&mut self, pages: usize, ours_ms: f64, theirs_ms: f64) {
        self.pages += f64::from(u32::try_from(pages).unwrap_or(u32::MAX));
        self.millis.push([ours_ms, theirs_ms]);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.millis.len()
    }

    /// Pages a second of all blocks, ours and theirs.
    #[must_use]
    pub fn pages_per_s(&self) -> [f64; 2] {
        [0, 1].map(|side| {
            let all: f64 = self.millis.iter().map(|block| block[side]).sum();
            1e3 * self.pages / all.max(1e-3)
        })
    }

    /// How many times as fast as the package the flow was in a block: lower quartile, median, upper
    /// quartile.
    #[must_use]
    pub fn ratios(&self) -> [f64; 3] {
        let ratio = |[ours, theirs]: &[f64; 2]| theirs / ours.max(1e-3);
        let mut ratios: Vec<f64> = self.millis.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().saturating_sub(1);
        [1, 2, 3].map(|quarter| ratios.get(last * quarter / 4).copied().unwrap_or(0.0))
    }
}

/// Counters of a running flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Nanoseconds inside models.
    pub models: u64,
    /// Nanoseconds inside functions.
    pub functions: u64,
    /// Nanoseconds that its processes had a processor.
    pub processor: u64,
}

impl Work {
    /// Reads the counters now. The flow has to be deployed with timing.
    #[must_use]
    pub fn now(session: &Session) -> Work {
        let mut work = Work::default();
        for (node, plan) in session.nodes().iter().zip(&session.plan().executors) {
            match plan.work {
                dflow::plan::Work::Function => work.functions += node.user_ns,
                _ => work.models += node.user_ns,
            }
        }
        work.processor = processes(session).into_iter().map(processor_ns).sum();
        work
    }

    /// What was done since `before`.
    #[must_use]
    pub fn since(self, before: Work) -> Work {
        Work {
            models: self.models.saturating_sub(before.models),
            functions: self.functions.saturating_sub(before.functions),
            processor: self.processor.saturating_sub(before.processor),
        }
    }

    /// Shares of models, of functions, and of all else that the processes did: queues, waking and
    /// waiting. They add up to 1.
    #[must_use]
    pub fn shares(self) -> [f64; 3] {
        let all = self.processor.max(self.models + self.functions);
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of minutes")]
        let share = |part: u64| part as f64 / all.max(1) as f64;
        [share(self.models), share(self.functions), share(all - self.models - self.functions)]
    }

    /// The shares as an object.
    #[must_use]
    pub fn to_json(self) -> Value {
        let [compute, functions, hops] = self.shares();
        json!({"compute": compute, "hops": hops, "functions": functions})
    }
}

/// Threads that execute nodes.
#[must_use]
pub fn threads(session: &Session) -> usize {
    session.nodes().iter().filter(|node| node.processed > 0).count()
}

fn processes(session: &Session) -> BTreeSet<u32> {
    session.nodes().iter().map(|node| node.pid).filter(|pid| *pid != 0).collect()
}

/// Processor time of all threads.
fn processor_ns(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let times = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    times.sum()
}

/// Memory of the whole flow, KiB: its executors, what watches over them, and this program; what
/// several of them share counts once.
#[must_use]
pub fn memory_kib(session: &Session) -> u64 {
    let watcher = session.watcher_pid();
    let mut all = processes(session);
    all.extend([std::process::id(), watcher]);
    all.extend(children(watcher));
    all.into_iter().map(pss_kib).sum()
}

fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// A process's share of what it has in memory.
fn pss_kib(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_one() {
        let work = Work { models: 60, functions: 30, processor: 100 };
        assert_eq!(work.since(Work::default()), work);
        let [compute, functions, hops] = work.shares();
        assert!((compute - 0.6).abs() < 1e-9 && (functions - 0.3).abs() < 1e-9);
        assert!((hops - 0.1).abs() < 1e-9);
        // Waiting for a processor inside a function counts as the function's.
        let [compute, functions, hops] = Work { processor: 10, ..work }.shares();
        assert!((compute + functions - 1.0).abs() < 1e-9 && hops == 0.0);
        assert_eq!(Work::default().shares(), [0.0; 3]);
    }

    #[test]
    fn blocks_are_compared_one_by_one() {
        let mut blocks = Blocks::default();
        assert_eq!((blocks.count(), blocks.ratios()), (0, [0.0; 3]));
        for (ours, theirs) in [(10.0, 20.0), (10.0, 10.0), (20.0, 60.0), (10.0, 40.0), (10.0, 50.0)]
        {
            blocks.add(3, ours, theirs);
        }
        assert_eq!((blocks.count(), blocks.ratios()), (5, [2.0, 3.0, 4.0]));
        let [ours, theirs] = blocks.pages_per_s();
        assert!((ours - 250.0).abs() < 1e-9 && (theirs - 1000.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn this_process_has_memory_and_had_a_processor() {
        assert!(pss_kib(std::process::id()) > 100);
        assert!(processor_ns(std::process::id()) > 0);
        assert_eq!((pss_kib(0), processor_ns(0)), (0, 0));
    }
}
