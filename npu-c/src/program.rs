//! Compiled programs: loaded, run at once or as a task of a stream, unloaded.

use std::ffi::{CString, c_void};
use std::fs;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use npu::aligned::AlignedBytes;
use npu::engine::{self, Input};
use npu_device::codes::{
    FEATURE_NOT_SUPPORT, MEMORY_ALLOCATION, PARAM_INVALID, RESOURCE_ALLOC_FAIL,
};
use npu_device::{Call, Error, Fault, Function, Kernel, Result, Stream, StreamFlags};

use crate::desc::{Buffer, Port, Ports};
use crate::raw::{Out, Text, bytes, bytes_mut, null};
use crate::state::{self, Handle, Object, current, current_number, find, keep};

type Model = engine::Model<AlignedBytes>;

/// Inputs, and outputs, that a program can have here.
const PORTS_MAX: usize = 32;

/// Sets of buffers that tasks of one program use.
const BINDINGS_MAX: usize = 1 << 16;

/// What tasks of a program run.
struct Runner {
    model: Model,
    arena: Mutex<AlignedBytes>,
    /// What tasks name by number. Kept until the program is unloaded, as tasks may run again.
    bindings: Mutex<Vec<Arc<Binding>>>,
}

/// Where inputs and outputs are: address and size.
#[derive(PartialEq)]
struct Binding {
    inputs: Box<[(usize, usize)]>,
    outputs: Box<[(usize, usize)]>,
}

/// A loaded program.
pub(crate) struct Program {
    pub(crate) ports: Arc<Ports>,
    runner: Arc<Runner>,
    function: Function,
    /// The stream of runs at once, one at a time.
    stream: Mutex<Stream>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program of a number that loading gave.
pub(crate) fn program(id: u32) -> Result<Arc<Program>> {
    let found = find(state::handle((id as usize) << 4), "program", |object| match object {
        Object::Program(program) => Some(program.clone()),
        _ => None,
    });
    found.map(|(program, _)| program)
}

impl Program {
    fn load(file: AlignedBytes, from: &str) -> Result<Self> {
        let model = Model::load(file)
            .map_err(|error| Error::new(PARAM_INVALID, format!("{from}: {error}")))?;
        if model.inputs().len() > PORTS_MAX || model.outputs().len() > PORTS_MAX {
            let what = format!("{from}: more than {PORTS_MAX} inputs or outputs");
            return Err(Error::new(FEATURE_NOT_SUPPORT, what));
        }
        let arena = AlignedBytes::try_zeroed(model.arena_bytes()).map_err(|_| {
            let what = format!("{from}: {} bytes of working memory", model.arena_bytes());
            Error::new(MEMORY_ALLOCATION, what)
        })?;
        let om = model.program();
        let port = |index: &usize| {
            let tensor = &om.tensors()[*index];
            let name = CString::new(om.tensor_name(tensor).replace('\0', " "));
            Port { name: name.unwrap_or_default(), info: tensor.info }
        };
        let ports = Arc::new(Ports {
            inputs: om.inputs().iter().map(port).collect(),
            outputs: om.outputs().iter().map(port).collect(),
        });
        let context = current()?.context;
        let runner = Runner { model, arena: Mutex::new(arena), bindings: Mutex::default() };
        let runner = Arc::new(runner);
        let stream = context.stream(StreamFlags::default())?;
        let function = context
            .register(from, runner.clone())
            .inspect_err(|_| drop(stream.clone().destroy()))?;
        Ok(Self { ports, runner, function, stream: Mutex::new(stream) })
    }

    /// What the device keeps of it goes.
    pub(crate) fn release(&self) {
        // It may be busy with a task of a stream that is gone; then it ends with its context.
        drop(lock(&self.stream).clone().destroy());
        self.function.clone().unregister();
    }

    /// What its tasks run.
    pub(crate) fn function(&self) -> &Function {
        &self.function
    }

    /// Addresses of inputs and outputs that tasks name by this number.
    pub(crate) fn addresses(&self, number: u64) -> Option<Box<[usize]>> {
        let bindings = lock(&self.runner.bindings);
        let binding = bindings.get(usize::try_from(number).ok()?)?;
        Some(binding.inputs.iter().chain(&binding.outputs).map(|(address, _)| *address).collect())
    }

    /// The number of this memory.
    pub(crate) fn bind(&self, inputs: &[Buffer], outputs: &[Buffer]) -> Result<usize> {
        self.runner.bind(&self.ports, inputs, outputs)
    }

    /// A task that runs it.
    fn submit(&self, stream: &Stream, inputs: Handle, outputs: Handle) -> Result<()> {
        let inputs = state::dataset(inputs)?.buffers()?;
        let outputs = state::dataset(outputs)?.buffers()?;
        let number = self.bind(&inputs, &outputs)?;
        stream.launch(&self.function, 1, [number as u64, 0, 0, 0]).map(drop)
    }
}

/// Whether there is memory for each port, and enough, where it may be.
fn fit(what: &str, given: &[Buffer], ports: &[Port]) -> Result<Box<[(usize, usize)]>> {
    let refuse = |text: String| Err(Error::new(PARAM_INVALID, text));
    if given.len() != ports.len() {
        return refuse(format!("{} {what} buffers; the model has {}", given.len(), ports.len()));
    }
    let mut all = Vec::new();
    for (index, (buffer, port)) in given.iter().zip(ports).enumerate() {
        let wanted = port.info.bytes();
        if buffer.address == 0 {
            return Err(null("memory of a data buffer"));
        }
        if buffer.bytes < wanted {
            let has = buffer.bytes;
            return refuse(format!("{what} {index} has {has} bytes; the model needs {wanted}"));
        }
        if !buffer.address.is_multiple_of(64) || buffer.address.checked_add(wanted).is_none() {
            let at = buffer.address;
            return refuse(format!("{what} {index} lies at {at:#x}, not at a multiple of 64"));
        }
        all.push((buffer.address, wanted));
    }
    Ok(all.into())
}

fn overlap(a: &(usize, usize), b: &(usize, usize)) -> bool {
    a.0 < b.0 + b.1 && b.0 < a.0 + a.1
}

impl Runner {
    /// The number of these buffers, the old one if they were used before.
    fn bind(&self, ports: &Ports, inputs: &[Buffer], outputs: &[Buffer]) -> Result<usize> {
        let inputs = fit("input", inputs, &ports.inputs)?;
        let outputs = fit("output", outputs, &ports.outputs)?;
        for (index, output) in outputs.iter().enumerate() {
            let mut others = inputs.iter().chain(&outputs[..index]);
            if others.any(|other| overlap(output, other)) {
                let what = format!("output {index} overlaps other memory of the run");
                return Err(Error::new(PARAM_INVALID, what));
            }
        }
        let binding = Binding { inputs, outputs };
        let mut bindings = lock(&self.bindings);
        if let Some(known) = bindings.iter().position(|known| **known == binding) {
            return Ok(known);
        }
        if bindings.len() == BINDINGS_MAX {
            let what = format!("{BINDINGS_MAX} sets of buffers are in use: unload the program");
            return Err(Error::new(RESOURCE_ALLOC_FAIL, what));
        }
        bindings.push(Arc::new(binding));
        Ok(bindings.len() - 1)
    }

    fn run_on(&self, binding: &Binding) -> Option<std::result::Result<(), engine::RunError>> {
        let some = self.model.inputs().next().or_else(|| self.model.outputs().next())?;
        let mut inputs = [Input { info: *some, bytes: &[] }; PORTS_MAX];
        let given = self.model.inputs().zip(&binding.inputs);
        for (place, (info, (address, count))) in inputs.iter_mut().zip(given) {
            *place = Input { info: *info, bytes: bytes(*address, *count)? };
        }
        let mut outputs: [&mut [u8]; PORTS_MAX] = std::array::from_fn(|_| &mut [][..]);
        for (place, (address, count)) in outputs.iter_mut().zip(&binding.outputs) {
            *place = bytes_mut(*address, *count)?;
        }
        let inputs = &inputs[..binding.inputs.len()];
        let outputs = &mut outputs[..binding.outputs.len()];
        Some(self.model.run(inputs, outputs, &mut lock(&self.arena)))
    }
}

impl Kernel for Runner {
    fn run(&self, call: &Call) -> std::result::Result<(), Fault> {
        let number = usize::try_from(call.args[0]).unwrap_or(usize::MAX);
        let binding = lock(&self.bindings).get(number).cloned().ok_or(Fault::Exception)?;
        match self.run_on(&binding) {
            Some(ran) => ran.map_err(|error| Fault::Code(error.code())),
            None => Err(Fault::Exception),
        }
    }
}

fn keep_program(file: AlignedBytes, from: &str, place: &Out<u32>) -> Result<()> {
    let program = Arc::new(Program::load(file, from)?);
    let made = keep(Object::Program(program), current_number());
    let id = u32::try_from(made.addr() >> 4);
    place.put(id.map_err(|_| Error::new(RESOURCE_ALLOC_FAIL, "all numbers are used"))?)
}

fn no_memory(from: &str, size: usize) -> Error {
    Error::new(MEMORY_ALLOCATION, format!("{from}: {size} bytes for the program"))
}

/// A file as a whole. Only what has an end is read: no devices, no pipes.
fn read(path: &Text) -> Result<(AlignedBytes, String)> {
    let path = path.read()?.into_owned();
    let refuse =
        |what: &dyn std::fmt::Display| Error::new(PARAM_INVALID, format!("{path}: {what}"));
    let found = fs::metadata(&path).map_err(|error| refuse(&error))?;
    if !found.is_file() {
        return Err(refuse(&"not a regular file"));
    }
    let mut file = fs::File::open(&path).map_err(|error| refuse(&error))?;
    let size = usize::try_from(found.len()).unwrap_or(usize::MAX);
    let mut bytes = AlignedBytes::try_zeroed(size).map_err(|_| no_memory(&path, size))?;
    file.read_exact(&mut bytes).map_err(|error| refuse(&error))?;
    Ok((bytes, path))
}

api! {
    fn aclmdlLoadFromFile(path: Text, place: Out<u32>) {
        if place.is_null() {
            return Err(null("a place for the model's number"));
        }
        current()?;
        let (file, path) = read(&path)?;
        keep_program(file, &path, &place)
    }

    fn aclmdlLoadFromMem(file: *mut c_void, size: usize, place: Out<u32>) {
        if place.is_null() || file.is_null() {
            return Err(null("the file, or a place for the model's number"));
        }
        current()?;
        let from = "program in memory";
        let mut own = AlignedBytes::try_zeroed(size).map_err(|_| no_memory(from, size))?;
        let file = bytes(file.expose_provenance(), size).ok_or_else(|| null("the file"))?;
        own.copy_from_slice(file);
        keep_program(own, from, &place)
    }

    fn aclmdlUnload(id: u32) {
        program(id)?;
        state::forget(state::handle((id as usize) << 4));
        Ok(())
    }

    fn aclmdlExecute(id: u32, inputs: Handle, outputs: Handle) {
        let program = program(id)?;
        let stream = lock(&program.stream);
        program.submit(&stream, inputs, outputs)?;
        stream.synchronize(None)
    }

    fn aclmdlExecuteAsync(id: u32, inputs: Handle, outputs: Handle, at: Handle) {
        program(id)?.submit(&state::stream(at)?, inputs, outputs)
    }

    fn aclmdlQuerySize(path: Text, work: Out<usize>, weights: Out<usize>) {
        if work.is_null() || weights.is_null() {
            return Err(null("a place for a size"));
        }
        let (file, path) = read(&path)?;
        let model = Model::load(file)
            .map_err(|error| Error::new(PARAM_INVALID, format!("{path}: {error}")))?;
        work.put(model.arena_bytes())?;
        weights.put(model.program().weights_bytes())
    }
}
