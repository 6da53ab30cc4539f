//! A compiled model as a kernel: its inputs and outputs are memory of the device, read and written
//! where they lie.

use std::fmt;
use std::sync::{Arc, Mutex, RwLockReadGuard, RwLockWriteGuard};

use npu::aligned::AlignedBytes;
use npu::engine::{self, Input};

use crate::codes::{Error, FEATURE_NOT_SUPPORT, MEMORY_ALLOCATION, PARAM_INVALID, Result, refuse};
use crate::context::Context;
use crate::kernel::{Call, Fault, Function, Kernel};
use crate::lock::lock;
use crate::memory::Memory;

/// Inputs, and outputs, that a program run as a task can have.
const PORTS_MAX: usize = 16;

/// A program with its memory: one instance, which one task at a time runs.
pub struct ProgramTask<B> {
    model: Arc<engine::Model<B>>,
    inputs: Vec<Memory>,
    outputs: Vec<Memory>,
    /// Ports by the number of their memory: the order in which they are locked.
    order: Vec<Port>,
    arena: Mutex<AlignedBytes>,
}

#[derive(Clone, Copy)]
enum Port {
    Input(usize),
    Output(usize),
}

impl<B> fmt::Debug for ProgramTask<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program of {} inputs, {} outputs", self.inputs.len(), self.outputs.len())
    }
}

impl<B: AsRef<[u8]> + Send + Sync + 'static> ProgramTask<B> {
    /// Registers a program with the memory of its inputs and outputs, each of its own.
    ///
    /// # Errors
    /// 107000 when number or sizes do not fit the program, or memory is given twice; 207000 for
    /// more than 16 inputs or outputs; 207001 without memory for its working memory; 207005 when
    /// the device has no place for a function.
    pub fn register(
        context: &Context,
        name: &str,
        model: Arc<engine::Model<B>>,
        inputs: &[Memory],
        outputs: &[Memory],
    ) -> Result<Function> {
        fit("inputs", inputs, model.inputs().map(npu::tensor::TensorInfo::bytes))?;
        fit("outputs", outputs, model.outputs().map(npu::tensor::TensorInfo::bytes))?;
        let ports = (0..inputs.len()).map(Port::Input).chain((0..outputs.len()).map(Port::Output));
        let id = |port: &Port| match *port {
            Port::Input(index) => inputs[index].piece().id,
            Port::Output(index) => outputs[index].piece().id,
        };
        let mut order: Vec<Port> = ports.collect();
        order.sort_by_key(id);
        if order.windows(2).any(|pair| id(&pair[0]) == id(&pair[1])) {
            return refuse(PARAM_INVALID, "a program's ports need memory of their own each");
        }
        let arena = AlignedBytes::try_zeroed(model.arena_bytes());
        let arena = arena.map_err(|_| {
            let what = format!("working memory of {} bytes", model.arena_bytes());
            Error::new(MEMORY_ALLOCATION, what)
        })?;
        let (inputs, outputs) = (inputs.to_vec(), outputs.to_vec());
        let task = Self { model, inputs, outputs, order, arena: Mutex::new(arena) };
        context.register(name, Arc::new(task))
    }
}

/// Whether there is memory for each port, and enough.
fn fit(what: &str, given: &[Memory], wanted: impl ExactSizeIterator<Item = usize>) -> Result<()> {
    if wanted.len() > PORTS_MAX {
        let what = format!("a program of {} {what}: at most {PORTS_MAX}", wanted.len());
        return refuse(FEATURE_NOT_SUPPORT, what);
    }
    if given.len() != wanted.len() {
        let what = format!("{} {what}; the program has {}", given.len(), wanted.len());
        return refuse(PARAM_INVALID, what);
    }
    for (index, (memory, bytes)) in given.iter().zip(wanted).enumerate() {
        if memory.size() < bytes {
            let what = format!("{what}: {index} needs {bytes} bytes, has {}", memory.size());
            return refuse(PARAM_INVALID, what);
        }
    }
    Ok(())
}

impl<B: AsRef<[u8]> + Send + Sync> Kernel for ProgramTask<B> {
    fn run(&self, _call: &Call) -> std::result::Result<(), Fault> {
        let mut read: [Option<RwLockReadGuard<'_, AlignedBytes>>; PORTS_MAX] = Default::default();
        let mut written: [Option<RwLockWriteGuard<'_, AlignedBytes>>; PORTS_MAX] =
            Default::default();
        for port in &self.order {
            match *port {
                Port::Input(index) => read[index] = Some(self.inputs[index].piece().held()),
                Port::Output(index) => {
                    written[index] = Some(self.outputs[index].piece().held_to_write());
                }
            }
        }
        let empty = self.model.inputs().next().or_else(|| self.model.outputs().next());
        let Some(empty) = empty else { return Ok(()) };
        let mut inputs = [Input { info: *empty, bytes: &[] }; PORTS_MAX];
        for ((input, info), guard) in inputs.iter_mut().zip(self.model.inputs()).zip(&read) {
            let bytes = guard.as_ref().map_or(&[][..], |guard| &guard[..]);
            *input = Input { info: *info, bytes };
        }
        let mut outputs: [&mut [u8]; PORTS_MAX] = std::array::from_fn(|_| &mut [][..]);
        for (output, guard) in outputs.iter_mut().zip(&mut written) {
            if let Some(guard) = guard {
                *output = &mut guard[..];
            }
        }
        let (inputs, outputs) = (&inputs[..self.inputs.len()], &mut outputs[..self.outputs.len()]);
        let ran = self.model.run(inputs, outputs, &mut lock(&self.arena));
        drop(written);
        if let Some(memory) = self.outputs.first() {
            let device = memory.context().device();
            device.values.changed(&device.sched);
        }
        ran.map_err(|error| Fault::Code(error.code()))
    }
}
