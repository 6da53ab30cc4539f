//! States of the processor and the table of its transitions (udf §3.5, message mode), without any
//! action. A model's node goes through them as a function's does.
//!
//! ```text
//! 0 Init ─► 1 InitFlowFunc ─► 2 Ready ─► 3 PrepareInputData ─► 4 CallFlowFunc
//!                │              ▲         └ not ready: stays    │ └ pending: stays
//!                ▼              │                              ▼
//!           8 ProcError    6 ScheduleFinish ◄──────── 5 RepublishOutputData (full: stays)
//! ```
//! 8 is also reached from 3, 4 and 5.
//! It is not the loop ([`super::processor`]); 7 (suspend) and 9 (exception) come with their
//! messages.

/// A state; the numbers stand in `SlotCtl::state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Nothing is loaded.
    Init = 0,
    /// The function's `init` is called.
    InitFlowFunc = 1,
    /// Between two sets.
    Ready = 2,
    /// Collects one message of each input.
    PrepareInputData = 3,
    /// The set is given to the function.
    CallFlowFunc = 4,
    /// Outputs that found their queue full wait for room.
    RepublishOutputData = 5,
    /// The set is answered.
    ScheduleFinish = 6,
    /// The process ends with a code.
    ProcError = 8,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Library, queues and context are there.
    Loaded,
    /// `init` returned 0.
    InitDone,
    /// `init` asks to be called again.
    InitAgain,
    /// `init` failed for good.
    InitFailed,
    /// A pass begins.
    Begin,
    /// Every input has its message, or there are no inputs.
    InputsReady,
    /// An input is empty.
    InputsMissing,
    /// The inputs do not belong together; they were answered with a code.
    InputsAnswered,
    /// An input queue is gone.
    InputFailed,
    /// `proc` returned 0, or failed this set only (panic, no mbuf): every destination has its
    /// message.
    ProcDone,
    /// `proc` keeps its inputs.
    ProcPending,
    /// `proc` returned a code that ends the process.
    ProcFailed,
    /// Every output is enqueued.
    Published,
    /// An output queue is full.
    OutputFull,
    /// An output queue is gone.
    OutputFailed,
    /// Inputs are given back.
    Finished,
}

impl State {
    /// The state after `event`; `None` when it can't happen here.
    pub const fn after(self, event: Event) -> Option<State> {
        Some(match (self, event) {
            (State::Init, Event::Loaded) | (State::InitFlowFunc, Event::InitAgain) => {
                State::InitFlowFunc
            }
            (State::InitFlowFunc, Event::InitDone) | (State::ScheduleFinish, Event::Finished) => {
                State::Ready
            }
            (State::Ready, Event::Begin) | (State::PrepareInputData, Event::InputsMissing) => {
                State::PrepareInputData
            }
            (State::PrepareInputData, Event::InputsReady)
            | (State::CallFlowFunc, Event::ProcPending) => State::CallFlowFunc,
            (State::PrepareInputData, Event::InputsAnswered)
            | (State::CallFlowFunc, Event::ProcDone)
            | (State::RepublishOutputData, Event::OutputFull) => State::RepublishOutputData,
            (State::RepublishOutputData, Event::Published) => State::ScheduleFinish,
            (State::InitFlowFunc, Event::InitFailed)
            | (State::PrepareInputData, Event::InputFailed)
            | (State::CallFlowFunc, Event::ProcFailed)
            | (State::RepublishOutputData, Event::OutputFailed) => State::ProcError,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, State};

    const STATES: [State; 8] = [
        State::Init,
        State::InitFlowFunc,
        State::Ready,
        State::PrepareInputData,
        State::CallFlowFunc,
        State::RepublishOutputData,
        State::ScheduleFinish,
        State::ProcError,
    ];

    /// Row: event; column: state in the order above; the cell is the next state's number, `.` =
    /// impossible.
    const TABLE: [(Event, &str); 16] = [
        (Event::Loaded, "1......."),
        (Event::InitDone, ".2......"),
        (Event::InitAgain, ".1......"),
        (Event::InitFailed, ".8......"),
        (Event::Begin, "..3....."),
        (Event::InputsReady, "...4...."),
        (Event::InputsMissing, "...3...."),
        (Event::InputsAnswered, "...5...."),
        (Event::InputFailed, "...8...."),
        (Event::ProcDone, "....5..."),
        (Event::ProcPending, "....4..."),
        (Event::ProcFailed, "....8..."),
        (Event::Published, ".....6.."),
        (Event::OutputFull, ".....5.."),
        (Event::OutputFailed, ".....8.."),
        (Event::Finished, "......2."),
    ];

    #[test]
    fn every_cell() {
        for (event, row) in TABLE {
            assert_eq!(row.len(), STATES.len());
            for (state, cell) in STATES.into_iter().zip(row.chars()) {
                let next = state.after(event).map(|next| next as u32);
                assert_eq!(next, cell.to_digit(10), "{state:?} after {event:?}");
            }
        }
    }

    #[test]
    fn numbers_are_those_of_the_specification() {
        let numbers = STATES.map(|state| state as u32);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 8]);
    }
}
