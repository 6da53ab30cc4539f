//! The device of streams, one core of it, and the calls it can't be faster than.
//!
//! Empty tasks are kernels that do nothing: the entry is written, read, its function looked up and
//! called. The core runs on the far processor, the submitter on the near one.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use npu_device::{
    Call, Config, Context, Device, Fault, Function, Kernel, Model, Stream, StreamFlags,
};

use crate::Failure;
use crate::blocks::Side;
use crate::cores::Cores;
use crate::spin::spin_until;

/// Tasks of the model that is run.
const TASKS: u64 = 1000;

/// How long a core stays awake: longer than between two tasks of a block, shorter than between two
/// blocks, which others run in.
const AWAKE: Duration = Duration::from_micros(200);

/// A device of one core, on the far processor; the caller goes on on the near one.
///
/// # Errors
/// The device or the processors are refused.
pub fn start(cores: Cores) -> Result<Context, Failure> {
    sys::affinity::pin_current(cores.far)?;
    let device = Device::new(Config { cores: 1, spin: AWAKE, ..Config::default() })?;
    sys::affinity::pin_current(cores.near)?;
    Ok(Context::new(&device)?)
}

fn nothing(context: &Context) -> Result<Function, Failure> {
    Ok(context.register("nothing", Arc::new(|_: &Call| Ok(())))?)
}

/// Empty tasks submitted to an ordinary stream, and waited for at the end of a block.
#[derive(Debug)]
pub struct Empty {
    stream: Stream,
    function: Function,
}

impl Empty {
    /// With a stream of its own.
    ///
    /// # Errors
    /// The device has none left.
    pub fn new(context: &Context) -> Result<Self, Failure> {
        let stream = context.stream(StreamFlags::default())?;
        Ok(Self { stream, function: nothing(context)? })
    }
}

impl Side for Empty {
    fn name(&self) -> &str {
        "empty"
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.stream.nop()?;
        self.stream.synchronize(None)?;
        let started = Instant::now();
        for _ in 0..rounds {
            self.stream.launch(&self.function, 1, [0; 4])?;
        }
        self.stream.synchronize(None)?;
        Ok(crate::ns_each(started.elapsed(), rounds))
    }
}

/// From before a submission to the task's first instruction, the core awake.
#[derive(Debug)]
pub struct First {
    stream: Stream,
    function: Function,
    begin: Instant,
    /// Nanoseconds since `begin`, written by the task.
    ran: Arc<AtomicU64>,
}

impl First {
    /// With a stream of its own.
    ///
    /// # Errors
    /// The device has none left.
    pub fn new(context: &Context) -> Result<Self, Failure> {
        let (begin, ran) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let inside = ran.clone();
        let run = move |_: &Call| {
            inside.store(since(begin), Ordering::Release);
            Ok(())
        };
        let function = context.register("when", Arc::new(run))?;
        Ok(Self { stream: context.stream(StreamFlags::default())?, function, begin, ran })
    }

    /// Time until one task ran.
    fn once(&self) -> Result<u64, Failure> {
        self.ran.store(0, Ordering::Relaxed);
        let from = since(self.begin);
        self.stream.launch(&self.function, 1, [0; 4])?;
        let ran = || self.ran.load(Ordering::Acquire);
        spin_until(|| ran() != 0)?;
        // The stream goes idle before the next one, as the core has nothing else.
        spin_until(|| self.stream.query().is_ok_and(|done| done))?;
        Ok(ran().saturating_sub(from))
    }
}

impl Side for First {
    fn name(&self) -> &str {
        "first"
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        for _ in 0..64 {
            self.once()?;
        }
        let mut sum = 0;
        for _ in 0..rounds {
            sum += self.once()?;
        }
        Ok(crate::ns_each(Duration::from_nanos(sum), rounds))
    }
}

/// Never 0.
fn since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
}

/// A run of a model of empty kernels, waited for.
#[derive(Debug)]
pub struct Run {
    model: Model,
}

impl Run {
    /// A complete model.
    ///
    /// # Errors
    /// The device has no room for it.
    pub fn new(context: &Context) -> Result<Self, Failure> {
        let (model, function) = (context.build_begin()?, nothing(context)?);
        let stream = context.stream(StreamFlags(StreamFlags::PERSISTENT))?;
        model.bind(&stream, true)?;
        for _ in 0..TASKS {
            stream.launch(&function, 1, [0; 4])?;
        }
        model.end_task(&stream)?;
        model.build_end()?;
        Ok(Self { model })
    }

    /// Runs it so often.
    ///
    /// # Errors
    /// The code of a run.
    pub fn times(&self, rounds: u64) -> Result<(), Failure> {
        for _ in 0..rounds {
            self.model.execute(None)?;
        }
        Ok(())
    }
}

impl Side for Run {
    fn name(&self) -> &str {
        "run"
    }

    /// Microseconds a run.
    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.times(2)?;
        let started = Instant::now();
        self.times(rounds)?;
        Ok(crate::ns_each(started.elapsed(), rounds) / 1e3)
    }
}

/// The same kernel, called through the same kind of pointer and nothing else.
pub struct Calls {
    kernel: Arc<dyn Kernel>,
}

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            kernel: Arc::new(
                |call: &Call| if call.blocks == 0 { Err(Fault::Exception) } else { Ok(()) },
            ),
        }
    }
}

impl Side for Calls {
    fn name(&self) -> &str {
        "call"
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let call = Call { args: [0; 4], blocks: 1, stream: 0, task: 0 };
        let started = Instant::now();
        for _ in 0..rounds {
            black_box(&self.kernel).run(black_box(&call)).map_err(|fault| format!("{fault:?}"))?;
        }
        Ok(crate::ns_each(started.elapsed(), rounds))
    }
}
