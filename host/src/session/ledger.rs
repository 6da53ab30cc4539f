//! The ledger: which ids are open, and that each (trans_id, output port) ends in exactly one event.
//!
//! Pure: time is an argument, nothing waits. Bounded by `max_open`. An id is open from its feed
//! until every output port had its terminal event: data, a code that came through the flow, or an
//! *answer* made here (deadline, cancel, a node that failed, a dead supervisor). What arrives
//! afterwards is counted as late and dropped; what arrives for a port that was settled is counted
//! as a duplicate and dropped. Between `open` and `sent` an id takes up room and gets no answer, so
//! a feed that fails leaves no trace.

use std::collections::{BTreeSet, HashMap, VecDeque};

use executor_core::error::Code;
use sys::clock::MonoTime;

/// Most output ports of a flow.
pub(super) const PORTS_MAX: usize = 64;

#[derive(Debug)]
struct Open {
    pending: u64,
    deadline: Option<MonoTime>,
    fed: MonoTime,
    /// Its messages are queued. Before that only the feeder may end it.
    sent: bool,
}

/// A terminal event that did not come out of the flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The id.
    pub(super) trans_id: u64,
    /// Output port.
    pub(super) port: usize,
    /// Why.
    pub(super) code: Code,
    /// Who or what, in words.
    pub(super) reason: String,
}

/// What a message of the flow is to the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settled {
    /// The terminal event of its id and port; microseconds since the feed.
    Terminal(u64),
    /// Its id is open, but its port had its event.
    Duplicate,
    /// Its id is not open (any more).
    Late,
}

/// Why an id was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// `max_open` ids are open.
    Full,
    /// This id is open already.
    Open,
    /// Smaller than an id fed before, 0, or the largest number (executor-deployer §4.3).
    Order,
}

/// Counts since the session began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LedgerCounts {
    /// Ids opened.
    pub fed: u64,
    /// Ids with all events.
    pub closed: u64,
    /// Messages for ports that had their event.
    pub duplicates: u64,
    /// Messages for ids that were not open.
    pub late: u64,
    /// Ids answered at their deadline.
    pub expired: u64,
    /// Ids answered because nothing carried them any more.
    pub lost: u64,
    /// Ids cancelled.
    pub cancelled: u64,
}

/// The ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    open: HashMap<u64, Open>,
    deadlines: BTreeSet<(MonoTime, u64)>,
    ready: VecDeque<Answer>,
    max_open: usize,
    all_ports: u64,
    last: u64,
    /// Counts.
    pub(super) counts: LedgerCounts,
}

impl Ledger {
    /// A ledger for `ports` output ports and at most `max_open` open ids.
    #[must_use]
    pub(super) fn new(ports: usize, max_open: usize) -> Ledger {
        let all_ports = if ports >= PORTS_MAX { u64::MAX } else { (1 << ports) - 1 };
        Ledger {
            open: HashMap::with_capacity(max_open),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            max_open,
            all_ports,
            last: 0,
            counts: LedgerCounts::default(),
        }
    }

    /// Room for another id. Answers that nobody fetched take up room, too.
    #[must_use]
    pub(super) fn has_room(&self) -> bool {
        let ports = self.all_ports.count_ones() as usize;
        self.open.len() < self.max_open
            && self.ready.len() < self.max_open.saturating_mul(ports.max(1))
    }

    /// Number of open ids.
    #[must_use]
    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Ids that are open and sent.
    pub(super) fn open_ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().filter(|(_, open)| open.sent).map(|(id, _)| *id)
    }

    /// Opens an id: the next one, or `custom`, which must not be smaller than the last.
    ///
    /// # Errors
    /// [`Refused`].
    pub(super) fn open(
        &mut self,
        custom: Option<u64>,
        now: MonoTime,
        deadline: Option<MonoTime>,
    ) -> Result<u64, Refused> {
        if !self.has_room() {
            return Err(Refused::Full);
        }
        let id = match custom {
            None if self.last >= u64::MAX - 1 => return Err(Refused::Order),
            None => self.last + 1,
            Some(0 | u64::MAX) => return Err(Refused::Order),
            Some(id) if id < self.last => return Err(Refused::Order),
            Some(id) => id,
        };
        if self.open.contains_key(&id) {
            return Err(Refused::Open);
        }
        self.last = id;
        self.counts.fed += 1;
        let open = Open { pending: self.all_ports, deadline, fed: now, sent: false };
        self.open.insert(id, open);
        Ok(id)
    }

    /// The messages of an id are queued: from now on it can be answered.
    pub(super) fn sent(&mut self, id: u64) {
        // It may have been fetched already.
        if let Some(open) = self.open.get_mut(&id) {
            open.sent = true;
            self.deadlines.extend(open.deadline.map(|deadline| (deadline, id)));
        }
    }

    /// Takes back an id that was opened and then not fed.
    pub(super) fn withdraw(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id) {
            self.forget_deadline(id, open.deadline);
            self.counts.fed -= 1;
        }
    }

    fn forget_deadline(&mut self, id: u64, deadline: Option<MonoTime>) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, id));
        }
    }

    /// A message of `id` came out of output `port`.
    pub(super) fn settle(&mut self, id: u64, port: usize, now: MonoTime) -> Settled {
        let bit = 1u64.checked_shl(u32::try_from(port).unwrap_or(64)).unwrap_or(0);
        let Some(open) = self.open.get_mut(&id) else {
            self.counts.late += 1;
            return Settled::Late;
        };
        if open.pending & bit == 0 {
            self.counts.duplicates += 1;
            return Settled::Duplicate;
        }
        open.pending &= !bit;
        let micros = now.since_ns(open.fed) / 1000;
        if open.pending == 0 {
            let deadline = open.deadline;
            self.open.remove(&id);
            self.forget_deadline(id, deadline);
            self.counts.closed += 1;
        }
        Settled::Terminal(micros)
    }

    /// Answers every port of `id` that is still open; false when it is not open and sent.
    pub(super) fn answer(&mut self, id: u64, code: Code, reason: &str) -> bool {
        if !self.open.get(&id).is_some_and(|open| open.sent) {
            return false;
        }
        let Some(open) = self.open.remove(&id) else { return false };
        self.forget_deadline(id, open.deadline);
        self.counts.closed += 1;
        for port in (0..PORTS_MAX).filter(|port| open.pending & 1 << port != 0) {
            self.ready.push_back(Answer { trans_id: id, port, code, reason: reason.to_owned() });
        }
        true
    }

    /// Answers every id that is open and sent.
    pub(super) fn answer_all(&mut self, code: Code, reason: &str) {
        let mut ids: Vec<u64> = self.open_ids().collect();
        ids.sort_unstable();
        for id in ids {
            self.answer(id, code, reason);
        }
    }

    /// Answers ids whose deadline has come.
    pub(super) fn expire(&mut self, now: MonoTime) {
        while let Some((deadline, id)) = self.deadlines.first().copied().filter(|d| d.0 <= now) {
            self.deadlines.remove(&(deadline, id));
            self.counts.expired += 1;
            self.answer(id, Code::DEADLINE, "the deadline of this id passed");
        }
    }

    /// The next deadline of an open id.
    #[must_use]
    pub(super) fn next_deadline(&self) -> Option<MonoTime> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The next answer made here.
    pub(super) fn take_answer(&mut self) -> Option<Answer> {
        self.ready.pop_front()
    }

    /// True when an answer waits, or the next deadline is another than `next`.
    #[must_use]
    pub(super) fn has_news(&self, next: Option<MonoTime>) -> bool {
        self.has_answer() || self.next_deadline().is_some_and(|now| next.is_none_or(|n| now < n))
    }

    /// True when no id is open and no answer waits.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.ready.is_empty()
    }

    /// True when an answer waits to be fetched.
    #[must_use]
    pub(super) fn has_answer(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonoTime = MonoTime::from_ns(1_000_000);

    fn feed(ledger: &mut Ledger, deadline: Option<MonoTime>) -> u64 {
        let id = ledger.open(None, NOW, deadline).unwrap();
        ledger.sent(id);
        id
    }

    #[test]
    fn an_unsent_id_is_only_the_feeders() {
        let mut ledger = Ledger::new(1, 1);
        let id = ledger.open(None, NOW, Some(NOW.add_ms(1))).unwrap();
        assert!(!ledger.answer(id, Code::CANCELLED, "test"));
        ledger.expire(NOW.add_ms(2));
        ledger.answer_all(Code::SESSION_CLOSED, "test");
        assert_eq!((ledger.has_answer(), ledger.open_ids().count()), (false, 0));
        ledger.withdraw(id);
        assert_eq!((ledger.open_count(), ledger.counts.fed), (0, 0));
        let id = ledger.open(None, NOW, Some(NOW.add_ms(1))).unwrap();
        assert_eq!(ledger.settle(id, 0, NOW), Settled::Terminal(0));
        ledger.sent(id);
        assert_eq!(ledger.next_deadline(), None);
    }

    #[test]
    fn answers_that_nobody_fetches_take_up_room() {
        let mut ledger = Ledger::new(2, 1);
        let id = feed(&mut ledger, None);
        assert!(ledger.answer(id, Code::CANCELLED, "test"));
        assert_eq!(ledger.open(None, NOW, None), Err(Refused::Full));
        assert!(ledger.take_answer().is_some());
        assert!(ledger.open(None, NOW, None).is_ok());
    }

    #[test]
    fn every_port_ends_once() {
        let mut ledger = Ledger::new(2, 4);
        let id = feed(&mut ledger, None);
        assert_eq!(id, 1);
        assert_eq!(ledger.settle(id, 0, NOW), Settled::Terminal(0));
        assert_eq!(ledger.settle(id, 0, NOW), Settled::Duplicate);
        assert!(ledger.answer(id, Code::CANCELLED, "test"));
        let answer = ledger.take_answer().unwrap();
        assert_eq!((answer.port, answer.code), (1, Code::CANCELLED));
        assert_eq!(ledger.take_answer(), None);
        assert_eq!(ledger.settle(id, 1, NOW), Settled::Late);
        assert_eq!((ledger.counts.closed, ledger.counts.late, ledger.counts.duplicates), (1, 1, 1));
    }

    #[test]
    fn ids_follow_the_table_of_executor_deployer_4_3() {
        let mut ledger = Ledger::new(1, 16);
        assert_eq!(ledger.open(Some(1), NOW, None), Ok(1));
        assert_eq!(ledger.open(None, NOW, None), Ok(2));
        assert_eq!(ledger.open(Some(u64::from(u32::MAX)), NOW, None), Ok(u64::from(u32::MAX)));
        assert_eq!(ledger.open(Some(100), NOW, None), Err(Refused::Order));
        assert_eq!(ledger.open(Some(u64::MAX), NOW, None), Err(Refused::Order));
        assert_eq!(ledger.open(Some(u64::MAX - 1), NOW, None), Ok(u64::MAX - 1));
        assert_eq!(ledger.open(None, NOW, None), Err(Refused::Order));
        assert_eq!(ledger.open(Some(u64::MAX - 1), NOW, None), Err(Refused::Open));
    }

    #[test]
    fn bounded_and_exact_about_deadlines() {
        let mut ledger = Ledger::new(1, 2);
        let first = feed(&mut ledger, Some(NOW.add_ms(10)));
        let second = feed(&mut ledger, Some(NOW.add_ms(5)));
        assert_eq!(ledger.open(None, NOW, None), Err(Refused::Full));
        assert_eq!(ledger.next_deadline(), Some(NOW.add_ms(5)));
        ledger.expire(NOW.add_ms(4));
        assert!(!ledger.has_answer());
        ledger.expire(NOW.add_ms(5));
        assert_eq!(
            ledger.take_answer().map(|a| (a.trans_id, a.code)),
            Some((second, Code::DEADLINE))
        );
        assert_eq!(ledger.settle(first, 0, NOW.add_ms(6)), Settled::Terminal(6000));
        assert_eq!(ledger.next_deadline(), None);
        assert_eq!(ledger.open_count(), 0);
        let third = ledger.open(None, NOW, None).unwrap();
        ledger.withdraw(third);
        assert_eq!(ledger.counts.fed, 2);
        feed(&mut ledger, None);
        ledger.answer_all(Code::SESSION_CLOSED, "closed");
        assert!(ledger.has_answer());
    }
}
