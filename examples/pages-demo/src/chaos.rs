//! Chaos: every second a random executor is killed with SIGKILL.

use dflow::Session;
use dflow::session::NodeCounts;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Time between kills.
const PERIOD: Duration = Duration::from_secs(1);

/// One kill.
#[derive(Debug, Clone)]
pub(crate) struct Kill {
    /// Since the run began.
    pub(crate) at: Duration,
    /// Label of the executor.
    pub(crate) label: String,
    /// Process that died.
    pub(crate) pid: u32,
}

/// Kills until `stop` says so or is gone; `tell` is called after each.
pub(crate) fn run(
    session: &Session,
    seed: u64,
    stop: &Receiver<()>,
    tell: impl Fn(&Kill),
) -> Vec<Kill> {
    let start = Instant::now();
    let mut random = Random(seed);
    let mut kills = Vec::new();
    while stop.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let nodes = session.nodes();
        let Some(victim) = nodes.get(random.below(nodes.len())) else { continue };
        if kill(session, victim) {
            let (label, pid) = (victim.label.clone(), victim.pid);
            let kill = Kill { at: start.elapsed(), label, pid };
            tell(&kill);
            kills.push(kill);
        }
    }
    kills
}

/// False when the process is between two lives.
fn kill(session: &Session, victim: &NodeCounts) -> bool {
    let pid = i32::try_from(victim.pid).ok().and_then(Pid::from_raw);
    let Some(pidfd) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return false;
    };
    // The number is still this node's, so the descriptor is this node's process.
    let is_same = session.nodes().iter().any(|n| n.label == victim.label && n.pid == victim.pid);
    is_same && pidfd_send_signal(pidfd, Signal::KILL).is_ok()
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ mixed >> 31) % (count as u64).max(1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_a_victim_sometime() {
        let mut random = Random(0);
        let mut seen = [0; 5];
        (0..100).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
        assert_eq!(Random(7).below(0), 0);
    }
}
