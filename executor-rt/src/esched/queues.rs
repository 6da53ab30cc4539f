//! Queue events: edges of queues become events of a group (device-runtime §2.4).
//!
//! | subscription | armed by | becomes an event when |
//! |---|---|---|
//! | not empty, PULL | subscribing; a dequeue that may have emptied the queue | it has a message |
//! | not empty, PUSH | – | every enqueue since the last look |
//! | not full | an enqueue that filled its lane or found it full | the lane has room |
//!
//! The first is event 8 (kind GROUP: 6), once and disarmed; PUSH makes one for each; the last is 7.
//!
//! The exchange arms *before* it can be known whether the other side moved meanwhile, so an edge is
//! never missed; in a race there can be one event more than edges. A full store keeps a
//! subscription armed: its event comes later, never not at all. Subscribing to a queue that has
//! messages makes an event at once.

use executor_core::owner::QueueId;
use executor_core::primitive::Ordering;
use executor_core::queue::QueueFlags;

use super::event::Edge;
use super::store::Stored;
use super::{EventError, EventId, Scheduler, State, SubscribeKind};

/// A queue whose edges become events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscription {
    queue: QueueId,
    group: u32,
    edge: Edge,
    push: bool,
    armed: bool,
    /// Enqueues that became events (PUSH).
    seen: u64,
}

impl Subscription {
    fn is_not_full(&self) -> bool {
        self.edge == Edge::NotFull
    }
}

impl Scheduler<'_> {
    /// `rtQueueSubscribe`: messages in `queue`, which this process consumes and whose producers
    /// ring this scheduler's waiter, become events of `group`.
    ///
    /// # Errors
    /// [`EventError::Queue`] when producers ring elsewhere; `Exists` for a second subscription;
    /// `OverLimit`;
    /// `Invalid` for an unknown group.
    pub fn subscribe_not_empty(
        &self,
        queue: QueueId,
        group: u32,
        kind: SubscribeKind,
    ) -> Result<(), EventError> {
        let ctl = self.memory.queues.get(queue.0 as usize).ok_or(EventError::Queue(queue))?;
        let flags = ctl.queue_flags();
        let shared = flags.intersects(QueueFlags::SHARED | QueueFlags::OVERWRITE);
        let mine = shared || ctl.consumer.load(Ordering::Relaxed) == self.waiter.slot().0;
        let rings = ctl.consumer_waiter.load(Ordering::Relaxed) == self.waiter.index();
        let info = self.memory.query_queue(queue).map_err(|_| EventError::Queue(queue))?;
        if !mine || !rings {
            return Err(EventError::Queue(queue));
        }
        let push = flags.contains(QueueFlags::PUSH);
        let seen = info.enqueued - u64::from(info.size).min(info.enqueued);
        let edge = Edge::NotEmpty(kind);
        self.add(Subscription { queue, group, edge, push, armed: true, seen })
    }

    /// `rtQueueSubF2NFEvent`: room in this process's lane of `queue` after it was full becomes an
    /// event.
    ///
    /// # Errors
    /// [`EventError::Queue`] when this process may not enqueue; else as
    /// [`Scheduler::subscribe_not_empty`].
    pub fn subscribe_not_full(&self, queue: QueueId, group: u32) -> Result<(), EventError> {
        let lane = self.memory.query_lane(queue, self.waiter.slot());
        let lane = lane.map_err(|_| EventError::Queue(queue))?;
        let armed = lane.size >= lane.depth;
        self.add(Subscription { queue, group, edge: Edge::NotFull, push: false, armed, seen: 0 })
    }

    fn add(&self, new: Subscription) -> Result<(), EventError> {
        let mut state = self.lock();
        state.group(new.group)?;
        let same = |s: &Subscription| s.queue == new.queue && s.is_not_full() == new.is_not_full();
        if state.subscriptions.iter().flatten().any(same) {
            return Err(EventError::Exists);
        }
        let place = state.subscriptions.iter_mut().find(|place| place.is_none());
        *place.ok_or(EventError::OverLimit)? = Some(new);
        self.pump(&mut state);
        self.rewatch(&mut state);
        Ok(())
    }

    /// Takes back both subscriptions of a queue.
    pub fn forget_queue(&self, queue: QueueId) {
        let mut state = self.lock();
        let mine = state.subscriptions.iter_mut().filter(|s| s.is_some_and(|s| s.queue == queue));
        mine.for_each(|place| *place = None);
    }

    /// A dequeue here may have emptied `queue`: its next message is an edge.
    pub fn note_drained(&self, queue: QueueId) {
        self.arm(queue, false);
    }

    /// An enqueue here filled `queue`, or found it full: the next room is an edge.
    pub fn note_full(&self, queue: QueueId) {
        self.arm(queue, true);
    }

    fn arm(&self, queue: QueueId, not_full: bool) {
        let mut state = self.lock();
        let mut subscriptions = state.subscriptions.iter_mut().flatten();
        let found = subscriptions.find(|s| s.queue == queue && s.is_not_full() == not_full);
        let Some(subscription) = found else { return };
        subscription.armed = true;
        self.pump(&mut state);
        if not_full {
            self.rewatch(&mut state);
        }
    }

    /// The leader sleeps with the registrations it made before; one that is armed now needs its
    /// own.
    fn rewatch(&self, state: &mut State) {
        if state.leader.is_some() {
            self.waiter.kick();
        } else {
            self.promote(state);
        }
    }

    /// Before the leader sleeps: the next dequeue from an armed lane rings it.
    pub(super) fn register(&self) {
        let state = self.lock();
        for armed in state.subscriptions.iter().flatten().filter(|s| s.is_not_full() && s.armed) {
            if let Ok(lane) = self.memory.query_lane(armed.queue, self.waiter.slot()) {
                self.memory.register_lane_wait(armed.queue, lane.lane);
            }
        }
    }

    /// Turns edges into events.
    pub(super) fn pump(&self, state: &mut State) {
        for index in 0..state.subscriptions.len() {
            let Some(mut sub) = state.subscriptions.get(index).copied().flatten() else { continue };
            while let Some(event) = self.next_edge(&sub) {
                let stored = Stored::new(event, sub.queue.0, self.pid, &[]);
                let group = state.group(sub.group);
                let (Some(stored), Ok(group)) = (stored, group) else { break };
                if !group.store.push(&stored) {
                    break;
                }
                sub.armed = false;
                sub.seen += 1;
                self.notify(state, sub.group);
            }
            if let Some(place) = state.subscriptions.get_mut(index) {
                *place = Some(sub);
            }
        }
    }

    /// The event that a subscription owes now.
    fn next_edge(&self, sub: &Subscription) -> Option<EventId> {
        match sub.edge {
            Edge::NotFull if sub.armed => {
                let lane = self.memory.query_lane(sub.queue, self.waiter.slot()).ok()?;
                (lane.size < lane.depth).then_some(EventId::FULL_TO_NOT_FULL)
            }
            Edge::NotEmpty(kind) if sub.push || sub.armed => {
                let info = self.memory.query_queue(sub.queue).ok()?;
                let owed = if sub.push { info.enqueued > sub.seen } else { info.size != 0 };
                owed.then_some(match kind {
                    SubscribeKind::Group => EventId::QUEUE_ENQUEUE,
                    SubscribeKind::Single => EventId::EMPTY_TO_NOT_EMPTY,
                })
            }
            _ => None,
        }
    }
}
