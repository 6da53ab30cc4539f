//! Models of nodes: an ONNX file or a frozen TensorFlow graph is compiled, a compiled one (OM) is
//! checked. What a file is follows from its first bytes.
//!
//! Programs are kept in the cache by the content they are made of (`cache`). What a node declares
//! of its model is compared in [`crate::check`].

mod cache;
mod profile;

pub use profile::{Profile, profile};

pub(crate) use cache::write_whole;

use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use compiler::{CompileError, Fate, Options};
use npu::aligned::AlignedBytes;
use npu::inspect::{Report, inspect};
use npu::program::{Layout, MAGIC, Om, STREAMS_MAX, with_layouts};

use crate::error::{DeployError, Place, Problem, found_in_file, io_text};
use crate::graph::{DType, Shape, TensorDesc};
use crate::notice;
use crate::plan::{DeployPlan, Work};

/// A compiled model: the bytes of an OM, checked.
#[derive(Clone)]
pub struct Program {
    bytes: Arc<AlignedBytes>,
    arena_bytes: u64,
}

impl Program {
    /// The bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of working memory that a run needs.
    #[must_use]
    pub fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} bytes)", self.bytes.len())
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes) || self.bytes() == other.bytes()
    }
}

/// An input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape, without open dims.
    pub shape: Shape,
}

/// A model that can be loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Loadable {
    /// The program.
    pub program: Program,
    /// What is in it.
    pub report: Report,
    /// Inputs in the order in which they are bound.
    pub inputs: Vec<Port>,
    /// Outputs in that order.
    pub outputs: Vec<Port>,
    /// What became of each node; none where nothing was compiled.
    pub fates: Vec<Fate>,
    /// Shapes in symbols, where a model with open dims was compiled.
    pub symbols: Option<String>,
}

/// Why a model can't be used: found, expected, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    /// What is there.
    pub found: String,
    /// What should be there.
    pub expected: &'static str,
    /// What the user can do.
    pub hint: &'static str,
}

impl ModelError {
    /// As a problem at a place.
    #[must_use]
    pub fn at(self, place: Place) -> Box<Problem> {
        Problem::new(place, found_in_file(&self.found), self.expected, self.hint)
    }
}

/// The bytes of a model's file; why there are none, in words. Devices and FIFOs are refused: they
/// may never end, or never begin.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let words = |error: std::io::Error| io_text(&error);
    if !std::fs::metadata(path).map_err(words)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    std::fs::read(path).map_err(words)
}

/// What a program is compiled for. One that is compiled already gets the sections of these layouts,
/// and keeps those it has when there are none.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Types and dims of inputs.
    pub bound: &'a [TensorDesc],
    /// Streams that it may have, at most.
    pub streams: usize,
    /// Layouts of weights besides the one that every machine reads.
    pub layouts: &'a [Layout],
}

/// Reads a model and compiles it where that is needed. `node` is named in progress lines.
///
/// # Errors
/// The file can't be read, is no model, or is one that is not supported: [`ModelError`].
pub fn load(
    node: &str,
    path: &Path,
    wanted: Wanted<'_>,
    use_cache: bool,
) -> Result<Loadable, ModelError> {
    let Wanted { bound, streams, layouts } = wanted;
    let file = read(path).map_err(|error| ModelError {
        found: format!("{}: {error}", path.display()),
        expected: "an ONNX model, a frozen TensorFlow graph, or a compiled model (OM)",
        hint: "correct the path; one in a graph file is relative to it",
    })?;
    if file.starts_with(&MAGIC) {
        let checked = packed(AlignedBytes::copy_of(&file), layouts).and_then(check);
        return checked.map_err(|error| ModelError {
            found: format!("{}: {error}", path.display()),
            expected: "a compiled model of this version",
            hint: "compile it again (`dflow compile`)",
        });
    }
    let bytes = Bytes::from(file);
    let files = beside(path, &bytes)?;
    let key = cache::key(&bytes, &files, &wanted);
    if let Some(kept) = cache::get(&key).filter(|_| use_cache) {
        return Ok(kept);
    }
    let start = Instant::now();
    notice::say(&format!("compile {node}: {}", path.display()));
    let refuse = |error: String, hint| ModelError {
        found: format!("{}: {error}", path.display()),
        expected: "a model that this version can compile",
        hint,
    };
    let options = options(bytes.clone(), bound).map_err(|(error, hint)| refuse(error, hint))?;
    let options = Options { files, streams, layouts: layouts.to_vec(), ..options };
    let compiled = compiler::compile(bytes, &options)
        .map_err(|error| refuse(error.to_string(), hint(&error)))?;
    for warning in &compiled.warnings {
        notice::say(&format!("compile {node}: {}", found_in_file(warning)));
    }
    if use_cache {
        cache::put(&key, &compiled.om);
    }
    notice::say(&format!("compile {node}: done in {:.1} s", start.elapsed().as_secs_f64()));
    let loaded = check(compiled.om)
        .map_err(|error| refuse(error, "report this: a fault of the compiler"))?;
    let symbols = compiled.symbols.map(|symbols| symbols.to_string());
    Ok(Loadable { fates: compiled.fates, symbols, ..loaded })
}

/// A compiled model with its weights in these layouts.
fn packed(bytes: AlignedBytes, layouts: &[Layout]) -> Result<AlignedBytes, String> {
    if layouts.is_empty() {
        return Ok(bytes);
    }
    let om = Om::open(&bytes[..]).map_err(|error| error.to_string())?;
    with_layouts(&om, layouts).ok_or_else(|| "more than a program can count".to_owned())
}

/// What to do about a model that is not compiled.
fn hint(error: &CompileError) -> &'static str {
    match error {
        CompileError::NotOnnx(_) | CompileError::NotTensorFlow(_) => {
            "name a model's file, or fetch or export it anew"
        }
        CompileError::Dims { .. } => {
            "give dims that fit: `inputs_tensor_desc` of a node, `--input NAME=1x3x224x224`"
        }
        CompileError::Input { .. } => {
            "bind the input: `inputs_tensor_desc` of a node, `--input NAME=1x3x224x224`"
        }
        _ => "export the model with the ops, opset and attributes that are supported",
    }
}

/// Streams of a program that so many threads run.
pub(crate) fn streams(threads: u32) -> usize {
    (threads as usize).clamp(1, STREAMS_MAX)
}

/// The files beside a model that its tensors lie in. Names that lead out of the model's folder, by
/// themselves or by a link, are refused; what is no model is left to the compiler.
fn beside(path: &Path, model: &Bytes) -> Result<Vec<(String, Bytes)>, ModelError> {
    let names = compiler::external_files(model.clone()).unwrap_or_default();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let one = |name: String| {
        let refuse = |what: &str| ModelError {
            found: format!("{}: data in the file `{name}`: {what}", path.display()),
            expected: "a file in the model's folder, or below it",
            hint: "put the file beside the model, or save the model with its weights inside",
        };
        let mut parts = Path::new(&name).components();
        if !parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            return Err(refuse("it is not in the model's folder"));
        }
        let words = |error: std::io::Error| refuse(&io_text(&error));
        let real = std::fs::canonicalize(folder.join(&name)).map_err(words)?;
        if !real.starts_with(std::fs::canonicalize(folder).map_err(words)?) {
            return Err(refuse("a link leads out of the model's folder"));
        }
        let bytes = read(&real).map_err(|error| refuse(&error))?;
        Ok((name, bytes.into()))
    };
    names.into_iter().map(one).collect()
}

/// A program from its bytes, if they are one whose ports messages can carry.
fn check(bytes: AlignedBytes) -> Result<Loadable, String> {
    let om = Om::open(&bytes[..]).map_err(|error| error.to_string())?;
    let report = inspect(&om);
    let ports = |all: &[npu::inspect::TensorReport]| -> Result<Vec<Port>, String> {
        let port = |tensor: &npu::inspect::TensorReport| {
            let dims = tensor.info.shape.dims().iter();
            let dims: Option<Vec<i64>> = dims.map(|dim| i64::try_from(*dim).ok()).collect();
            let (dtype, dims) = (DType::of_code(tensor.info.dtype.0), dims);
            let (dtype, dims) = dtype.zip(dims).ok_or_else(|| format!("tensor {tensor}"))?;
            Ok(Port { name: tensor.name.clone(), dtype, shape: Shape(dims) })
        };
        all.iter().map(port).collect()
    };
    let (inputs, outputs) = (ports(&report.inputs)?, ports(&report.outputs)?);
    drop(om);
    let program = Program { bytes: Arc::new(bytes), arena_bytes: report.arena_bytes };
    Ok(Loadable { program, report, inputs, outputs, fates: Vec::new(), symbols: None })
}

/// Names and dims as the compiler takes them; else what is wrong, and what to do.
fn options(model: Bytes, bound: &[TensorDesc]) -> Result<Options, (String, &'static str)> {
    if bound.is_empty() {
        return Ok(Options::default());
    }
    let imported = compiler::import(model).map_err(|error| (error.to_string(), hint(&error)))?;
    let names: Vec<&str> = imported.input_names().collect();
    let one = |(index, desc): (usize, &TensorDesc)| {
        let name = desc.name.as_deref().or_else(|| names.get(index).copied());
        let name = name.ok_or_else(|| {
            format!("`inputs_tensor_desc` has {}, the model {} inputs", bound.len(), names.len())
        })?;
        let dims = desc.shape.0.iter();
        let dims: Result<_, _> = dims.map(|dim| usize::try_from(*dim)).collect();
        let dims = dims.map_err(|_| format!("`inputs_tensor_desc` {name}: {}", desc.shape))?;
        Ok((name.to_owned(), dims))
    };
    let input_shapes = bound.iter().enumerate().map(one).collect::<Result<_, String>>();
    let input_shapes = input_shapes.map_err(|error| (error, "correct `inputs_tensor_desc`"))?;
    Ok(Options { input_shapes, ..Options::default() })
}

/// Obtains what a plan from elsewhere does not carry: the programs themselves.
///
/// # Errors
/// [`DeployError::Model`]
pub(crate) fn programs(plan: &mut DeployPlan) -> Result<(), DeployError> {
    for executor in &mut plan.executors {
        let Work::Model(model) = &mut executor.work else { continue };
        if model.program.is_some() {
            continue;
        }
        let place = Place::graph(&plan.name).node(&executor.node).port("`model`");
        let wanted = Wanted {
            bound: &model.inputs_tensor_desc,
            streams: streams(model.threads),
            layouts: &[],
        };
        let loaded = load(&executor.label, &model.path, wanted, true);
        let loaded = loaded.map_err(|error| DeployError::Model(error.at(place.clone())))?;
        let ports = (loaded.inputs.len(), loaded.outputs.len());
        let planned = (executor.inputs.len(), executor.outputs.len());
        if ports != planned {
            return Err(DeployError::Model(Problem::new(
                place,
                format!("a model with {} inputs and {} outputs", ports.0, ports.1),
                format!("{} inputs and {} outputs, as planned", planned.0, planned.1),
                "plan the flow again: the model has changed",
            )));
        }
        model.program = Some(loaded.program);
    }
    Ok(())
}
