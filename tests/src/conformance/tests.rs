//! The suite itself: it covers the table of ops, and it sees what is wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::cases::Run;
use super::onnx::Onnx;
use super::software_npu::SoftwareNpu;
use super::tensor::floats;
use super::{Answer, Backend, Flow, Loaded, Message, Presence, Step, Values, cases, run};

/// What a lying backend changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// The last bit of each output's first float, or whole number, that is not 0.
    Values,
    /// The shape of each output.
    Shapes,
    /// A code where none is.
    Codes,
    /// It runs the model on something that fits when the inputs do not.
    Fits,
    /// Ports under names of others.
    Names,
}

/// The software NPU, whose answers are changed.
struct Liar(Lie);

struct LyingUnits(Box<dyn Loaded>, Lie);

impl Backend for Liar {
    fn name(&self) -> &'static str {
        "liar"
    }

    fn presence(&self) -> Presence {
        Presence::Present
    }

    fn load(&self, models: &[Onnx]) -> Step<Box<dyn Loaded>> {
        Ok(Box::new(LyingUnits(SoftwareNpu.load(models)?, self.0)))
    }

    fn flow(&self, model: &Onnx) -> Step<Box<dyn Flow>> {
        SoftwareNpu.flow(model)
    }
}

impl Loaded for LyingUnits {
    fn run(&mut self, inputs: &Values) -> Step<Result<Values, u32>> {
        let outcome = self.0.run(inputs)?;
        let mut values = match (outcome, self.1) {
            (Ok(_), Lie::Codes) => return Ok(Err(1)),
            (Err(_), Lie::Fits) => return Ok(Ok(Values::new())),
            (Ok(values), _) => values,
            other => return Ok(other.0),
        };
        for (name, tensor) in &mut values {
            match self.1 {
                Lie::Values => {
                    // The highest bit of an exponent, or of a number's lowest byte.
                    let at = if tensor.dtype == dflow::DType::Float32 { 3 } else { 0 };
                    tensor.bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x40);
                }
                Lie::Shapes => tensor.shape.push(1),
                Lie::Names => name.push('_'),
                Lie::Codes | Lie::Fits => {}
            }
        }
        Ok(Ok(values))
    }

    fn unload(self: Box<Self>) -> Step {
        self.0.unload()
    }
}

/// A flow that answers every id with the same value, or the ids in pairs the other way round.
struct LyingFlow {
    swaps: bool,
    fed: u64,
    fetched: u64,
}

/// A backend with such flows.
struct Messenger {
    swaps: bool,
}

impl Backend for Messenger {
    fn name(&self) -> &'static str {
        "messenger"
    }

    fn presence(&self) -> Presence {
        Presence::Present
    }

    fn load(&self, models: &[Onnx]) -> Step<Box<dyn Loaded>> {
        SoftwareNpu.load(models)
    }

    fn flow(&self, _model: &Onnx) -> Step<Box<dyn Flow>> {
        Ok(Box::new(LyingFlow { swaps: self.swaps, fed: 0, fetched: 0 }))
    }
}

impl Flow for LyingFlow {
    fn feed(&mut self, _messages: Vec<Message>) -> Step<u64> {
        self.fed += 1;
        Ok(self.fed)
    }

    fn fetch(&mut self) -> Step<(u64, Answer)> {
        self.fetched += 1;
        let id = if self.swaps { self.fetched ^ 1 } else { self.fetched };
        // What the first of the ids in order has to come to.
        Ok((id, Answer::Data(vec![floats(&[1], &[0.25])])))
    }

    fn close(self: Box<Self>) -> Step {
        Ok(())
    }
}

/// Cases of messages, which the software NPU skips.
fn of_flows() -> usize {
    cases::all().iter().filter(|case| case.name.starts_with("flow/")).count()
}

#[test]
fn every_op_of_the_table_has_a_case_and_names_are_unique() {
    let mut names: Vec<&str> = cases::all().iter().map(|case| case.name).collect();
    for entry in npu::ops::TABLE {
        let prefix = format!("{}/", entry.name);
        assert!(names.iter().any(|name| name.starts_with(&prefix)), "no case of {}", entry.name);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn a_wrong_answer_fails_every_case_that_looks_at_it() {
    for (lie, not_seen) in [
        // There is no value to change.
        (Lie::Values, &["Reshape/allowzero", "size/zero"][..]),
        (Lie::Shapes, &[]),
        (Lie::Codes, &[]),
        (Lie::Names, &[]),
    ] {
        let report = run::run(&Liar(lie), &cases::all(), "");
        assert_eq!(report.passed, not_seen, "{lie:?}: {report}");
        assert_eq!(report.skipped.len(), of_flows());
    }
}

#[test]
fn an_input_that_does_not_fit_has_to_be_a_code() {
    let report = run::run(&Liar(Lie::Fits), &cases::all(), "");
    let failed: Vec<&str> = report.failed.iter().map(|(name, _)| *name).collect();
    assert_eq!(failed, ["run/wrong-shape", "run/wrong-rank", "run/wrong-type"], "{report}");
}

#[test]
fn wrong_answers_of_a_flow_fail_every_case_of_messages() {
    for swaps in [false, true] {
        let report = run::run(&Messenger { swaps }, &cases::all(), "flow/");
        let counts = (report.passed.len(), report.failed.len(), report.skipped.len());
        assert_eq!(counts, (0, of_flows(), 0), "{report}");
        let order = report.failed.iter().find(|(name, _)| *name == "flow/ids-in-order");
        let why = if swaps { "expected 1" } else { "`y`[0]" };
        assert!(order.is_some_and(|(_, text)| text.contains(why)), "{report}");
    }
}

#[test]
fn a_panic_is_a_failure_of_its_case() {
    let boom = cases::Case { name: "boom", run: Run::Steps(|_| panic!("on purpose")) };
    let report = run::run(&SoftwareNpu, &[boom], "");
    assert_eq!((report.failed.len(), report.passed.len()), (1, 0), "{report}");
}
