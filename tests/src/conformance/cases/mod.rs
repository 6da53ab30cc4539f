//! The cases. One that compares values is a `Sample`; the others are steps.

mod examples;
mod layers;
mod loads;
mod messages;
mod movement;
mod pointwise;

use dflow::Tensor;

use super::onnx::Onnx;
use super::{Backend, Loaded, Step, Stop, Values, tensor};

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name: the op or the subject, a slash, and what is special.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
}

/// What a case does.
#[derive(Clone, Debug)]
pub enum Run {
    /// Steps.
    Steps(fn(&dyn Backend) -> Step),
    /// Examples of one op, as text.
    Examples(Vec<&'static str>),
}

impl Case {
    /// Runs it.
    ///
    /// # Errors
    /// Why it did not hold.
    pub fn run(&self, backend: &dyn Backend) -> Step {
        match &self.run {
            Run::Steps(steps) => steps(backend),
            Run::Examples(lines) => examples::run(backend, lines),
        }
    }
}

/// All cases, in the order they run.
#[must_use]
pub fn all() -> Vec<Case> {
    let parts = [pointwise::CASES, layers::CASES, movement::CASES, loads::CASES, messages::CASES];
    [parts.concat(), examples::cases()].concat()
}

/// A model, what goes in, and what has to come out.
struct Sample {
    model: Onnx,
    inputs: Values,
    expected: Values,
    /// See [`tensor::compare`].
    tolerance: f64,
}

impl Sample {
    /// Of a model with one output.
    fn new<const N: usize>(model: Onnx, inputs: [(&str, Tensor); N], expected: Tensor) -> Self {
        let name = model.outputs.first().map_or("", |port| port.name.as_str()).to_owned();
        let expected = vec![(name, expected)];
        Self { model, inputs: tensor::named(inputs), expected, tolerance: 0.0 }
    }

    /// Sums of floats may be added up in any order, and exponentials be off by some bits.
    fn within(self, tolerance: f64) -> Self {
        Self { tolerance, ..self }
    }
}

/// A sum of some ten to hundred products of numbers below 2, in `float32`.
const SUMS: f64 = 2e-5;
/// One exponential, or some operations that may be contracted.
const FEW: f64 = 2e-6;

/// Runs the model of a sample twice: right, and the same bits again.
fn sample(backend: &dyn Backend, sample: &Sample) -> Step {
    let mut loaded = backend.load(std::slice::from_ref(&sample.model))?;
    let first = data(&mut *loaded, &sample.inputs)?;
    tensor::compare_all(&first, &sample.expected, sample.tolerance)?;
    tensor::compare_all(&data(&mut *loaded, &sample.inputs)?, &first, 0.0)?;
    loaded.unload()
}

/// A run that must not end with a code.
fn data(loaded: &mut dyn Loaded, inputs: &Values) -> Step<Values> {
    let outcome = loaded.run(inputs)?;
    outcome.map_err(|code| Stop::failed(format_args!("code {code}, expected data")))
}

/// A case that is a sample.
macro_rules! samples {
    ($($name:literal: $sample:ident),+ $(,)?) => {
        pub(super) const CASES: &[Case] = &[
            $(Case { name: $name, run: Run::Steps(|backend| sample(backend, &$sample())) }),+
        ];
    };
}
use samples;
