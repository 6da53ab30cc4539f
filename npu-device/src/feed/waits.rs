//! What a turn waits for, so that nothing that comes is missed.
//!
//! A task that finds nothing registers its wait only if nothing came since it looked; otherwise it
//! looks again. What comes stays noted when it wakes somebody, since the task that is done again
//! asks once more; a task of a queue resets the note before it looks.

/// Places that can be waited for: each input queue, each output queue, any input queue, the end of
/// the model.
#[derive(Debug)]
pub(super) struct Waits {
    arrived: Vec<bool>,
    waiting: Vec<bool>,
}

impl Waits {
    pub(super) fn new(places: usize) -> Self {
        Self { arrived: vec![false; places], waiting: vec![false; places] }
    }

    /// It came; whether somebody waited, who no longer does.
    pub(super) fn event(&mut self, place: usize) -> bool {
        self.arrived[place] = true;
        std::mem::take(&mut self.waiting[place])
    }

    /// Whether to wait; not, if it has come.
    pub(super) fn wait(&mut self, place: usize) -> bool {
        let must = !std::mem::take(&mut self.arrived[place]);
        self.waiting[place] = must;
        must
    }

    pub(super) fn reset(&mut self, place: usize) {
        self.arrived[place] = false;
    }
}

#[cfg(test)]
mod tests {
    use super::Waits;

    #[test]
    fn v7_35_what_comes_between_looking_and_waiting_is_not_missed() {
        let mut waits = Waits::new(2);
        waits.reset(0);
        // Looked, nothing there; it comes now, with nobody waiting.
        assert!(!waits.event(0));
        assert!(!waits.wait(0), "it looks again instead");
        assert!(waits.wait(0), "and then it waits");
        assert!(!waits.event(1), "for this place only");
        assert!(waits.event(0));
        // The task that is done again finds what woke it.
        assert!(!waits.wait(0));
        assert!(waits.wait(0));
        // A task of a queue resets before it looks: what woke it is no reason to look twice.
        assert!(waits.event(0));
        waits.reset(0);
        assert!(waits.wait(0));
    }
}
