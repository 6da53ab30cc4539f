//! What the loop looks at by itself: nodes that start, functions and locks that stand still, logs.

use executor_core::abi::control::WAITERS;
use executor_core::owner::WaiterId;
use executor_core::primitive::Ordering;
use executor_rt::plan::exit_kind;
use executor_rt::waiter::{LOOK_MS, nudge_all};
use sys::clock::MonoTime;

use super::Supervisor;
use crate::node::{Node, Run};

impl Supervisor<'_> {
    /// Ready nodes become `Running`; those that take too long are killed.
    pub(super) fn check_starting(&mut self, now: MonoTime) {
        for node in &mut self.nodes {
            let (slot, limit_ms) = (node.plan.slot, node.plan.init_timeout_ms);
            let Run::Live(live) = &mut node.run else { continue };
            if live.ready {
                continue;
            }
            if self.board.is_ready(slot) {
                live.ready = true;
                let state = live.state();
                self.board.set_state(node.slots(), state);
            } else if limit_ms != 0 && live.started.add_ms(limit_ms).is_past(now) {
                let text = format_args!("not ready after {limit_ms} ms (`init_timeout_ms`)");
                node.kill(self.files, exit_kind::LATE, text);
            }
        }
    }

    pub(super) fn tick(&mut self, now: MonoTime) {
        if !self.next_tick.is_past(now) {
            return;
        }
        self.next_tick = now.add_ms(self.tick_ms);
        self.check_functions(now);
        self.check_locks(now);
    }

    /// A peer that destroys another's wake words costs it a second, not its life.
    pub(super) fn nudge(&mut self, now: MonoTime) {
        if self.next_nudge.is_past(now) {
            self.next_nudge = now.add_ms(LOOK_MS);
            nudge_all(&self.memory);
        }
    }

    pub(super) fn check_functions(&mut self, now: MonoTime) {
        for node in &mut self.nodes {
            let limit_ms = node.plan.stall_ms;
            let slots = node.slots();
            let Some(live) = node.live_mut().filter(|live| limit_ms != 0 && live.ready) else {
                continue;
            };
            let stopped = live.stopped;
            let stalled = slots.zip(&mut live.watches).find_map(|(slot, watch)| {
                let waiter = self.memory.waiter(WaiterId(slot * WAITERS));
                let parked = waiter.is_some_and(|w| w.parked.load(Ordering::Acquire) != 0);
                let asleep = parked && !stopped;
                let ms = watch.stalled_ms(self.memory.private(slot)?.ctl, asleep, now)?;
                (ms >= limit_ms).then_some((slot, ms))
            });
            if let Some((slot, ms)) = stalled {
                let text = format_args!(
                    "no progress in the function of slot {slot} for {ms} ms (`stall_ms` is \
                     {limit_ms}: raise it if one call, or one task of a model, takes so long)"
                );
                node.kill(self.files, exit_kind::STALLED, text);
            }
        }
    }

    pub(super) fn check_locks(&mut self, now: MonoTime) {
        for stalled in self.locks.stalled(now) {
            let name = self.locks.name(stalled.index);
            let holder = stalled.holder.and_then(|slot| {
                let owns = |node: &&mut Node| node.plan.slots().any(|own| own == slot);
                self.nodes.iter_mut().find(owns)
            });
            match holder {
                Some(node) if node.live().is_some() => {
                    let ms = stalled.held_ms;
                    let text = format_args!("holds the lock of {name} for {ms} ms");
                    node.kill(self.files, exit_kind::STALLED, text);
                }
                None if stalled.holder == Some(0) => {}
                _ => {
                    if self.locks.break_lock(&stalled) {
                        self.sweeping.ring();
                    }
                }
            }
        }
    }
}
