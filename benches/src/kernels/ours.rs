//! A model of ours: compiled from its file, run in this process, its allocations counted.

use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use compiler::{Options, compile};
use executor_rt::interpose;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::team::Team;
use npu::tensor::TensorInfo;
use sys::memfd;
use sys::sealed::SealedBytes;

use crate::blocks::Side;
use crate::{Failure, ns_each};

/// A compiled model in a sealed memory file, as executors get it.
#[derive(Debug)]
pub struct Program {
    file: OwnedFd,
    /// How long it took to compile.
    pub compile_ms: f64,
}

impl Program {
    /// Compiles the model of a file; its only input has these dims.
    ///
    /// # Errors
    /// What the compiler refuses, as it says it.
    pub fn compile(path: &Path, input: &str, dims: &[usize]) -> Result<Self, Failure> {
        let model = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let options =
            Options { input_shapes: vec![(input.to_owned(), dims.to_vec())], ..Options::default() };
        let start = Instant::now();
        let compiled = compile(model.into(), &options)?;
        let compile_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(Self { file: memfd::from_bytes("model", &compiled.om)?, compile_ms })
    }

    /// Maps and checks the program, and takes memory for it.
    ///
    /// # Errors
    /// The program is refused, or has not one input and one output.
    pub fn load(&self, x: &[f32]) -> Result<Loaded, Failure> {
        let model = Model::load(SealedBytes::map(self.file.as_fd())?)?;
        let (inputs, outputs) = (model.inputs().len(), model.outputs().len());
        let (Some(info), Some(output), 1, 1) =
            (model.inputs().next().copied(), model.outputs().next(), inputs, outputs)
        else {
            return Err(format!("{inputs} inputs and {outputs} outputs; expected one each").into());
        };
        let bytes: Vec<u8> = x.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (x, y) = (AlignedBytes::copy_of(&bytes), AlignedBytes::zeroed(output.bytes()));
        let arena = AlignedBytes::zeroed(model.arena_bytes());
        Ok(Loaded { model, info, x, y, arena, team: None })
    }
}

/// A model with memory for a run.
#[derive(Debug)]
pub struct Loaded {
    model: Model<SealedBytes>,
    info: TensorInfo,
    x: AlignedBytes,
    y: AlignedBytes,
    arena: AlignedBytes,
    team: Option<Team>,
}

impl Loaded {
    /// The same with a team of two, the other one pinned to a core.
    ///
    /// # Errors
    /// The thread can't be made.
    pub fn with_two(mut self, core: usize) -> Result<Self, Failure> {
        let pin = move || {
            executor_rt::interpose::adopt_thread();
            let _stays = sys::affinity::pin_current(core);
        };
        self.team = Some(Team::new(2, pin)?);
        Ok(self)
    }

    /// Whether the last results of both are the same bits.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        self.y[..] == other.y[..]
    }

    /// One result.
    ///
    /// # Errors
    /// The input does not fit the model.
    pub fn run(&mut self) -> Result<(), Failure> {
        let input = Input { info: self.info, bytes: &self.x };
        let outputs: &mut [&mut [u8]] = &mut [&mut self.y[..]];
        self.model.run_with(&[input], outputs, &mut self.arena, self.team.as_ref(), |_| {})?;
        Ok(())
    }

    /// Calls of the malloc family in some runs.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    pub fn allocations(&mut self, runs: u32) -> Result<u64, Failure> {
        self.run()?;
        let before = interpose::counts().setup;
        for _ in 0..runs {
            self.run()?;
        }
        Ok(interpose::counts().setup - before)
    }

    /// Greatest distance of the last result to `expected`.
    ///
    /// # Errors
    /// They have another size, or a value is not a number.
    pub fn distance(&self, expected: &[u8]) -> Result<f64, Failure> {
        let floats = |bytes: &[u8]| -> Vec<f64> {
            let (words, _) = bytes.as_chunks();
            words.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect()
        };
        let (own, expected) = (floats(&self.y), floats(expected));
        if own.len() != expected.len() || own.is_empty() {
            return Err(format!("{} floats; expected {}", own.len(), expected.len()).into());
        }
        let each = own.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        if each.clone().any(f64::is_nan) {
            return Err("a result is not a number".into());
        }
        Ok(each.fold(0.0, f64::max))
    }
}

/// Blocks of runs.
#[derive(Debug)]
pub struct Runs(pub Loaded);

impl Side for Runs {
    fn name(&self) -> &str {
        if self.0.team.is_some() { "two threads" } else { "ours" }
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.0.run()?;
        let start = Instant::now();
        for _ in 0..rounds {
            self.0.run()?;
        }
        Ok(ns_each(start.elapsed(), rounds))
    }
}

/// Blocks of loads, each with a first result.
#[derive(Debug)]
pub struct Loads {
    /// What is loaded.
    pub program: Program,
    /// Its input.
    pub x: Vec<f32>,
}

impl Side for Loads {
    fn name(&self) -> &str {
        "ours"
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let start = Instant::now();
        for _ in 0..rounds {
            self.program.load(&self.x)?.run()?;
        }
        Ok(ns_each(start.elapsed(), rounds))
    }
}
