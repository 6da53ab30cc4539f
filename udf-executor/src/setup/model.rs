//! Load file and model file: exactly one model with exactly one definition (udf Appendix B).
//!
//! What this version does not have (several functions, streams, invoked models,
//! exceptions) is refused here with its name, rather than ignored.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use executor_core::error::Code;
use executor_rt::argv::UdfArgs;
use executor_rt::log::Logger;
use executor_rt::node::align::Settings;
use executor_rt::node::by_time;
use executor_rt::node::{Failure, Options, request};
use executor_rt::proto::{
    AttrValue, CONTROL_BYTES_MAX, LoadModelRequest, MODEL_BYTES_MAX, OutputDestinations, UdfDef,
    decode_load_file, decode_udf_model,
};
use executor_rt::report;

/// The library of built-in functions is found by the loader.
const BUILT_IN: &str = "libbuilt_in_flowfunc.so";

/// Everything that the files say.
#[derive(Debug)]
pub(crate) struct Model {
    /// Node name for logs.
    pub(crate) node: String,
    /// Name of the process point.
    pub(crate) name: String,
    /// Function in the library.
    pub(crate) function: String,
    /// File of the library.
    pub(crate) library: String,
    /// Folder of the model's files.
    pub(crate) work_path: String,
    /// Attributes of the node.
    pub(crate) attrs: BTreeMap<String, AttrValue>,
    /// Queue of each input port.
    pub(crate) inputs: Vec<u32>,
    /// Consumer groups of each output port.
    pub(crate) outputs: Vec<OutputDestinations>,
    /// What the node opted into.
    pub(crate) options: Options,
    /// How inputs are aligned.
    pub(crate) align: Option<Settings>,
    /// How they are aligned by time.
    pub(crate) align_time: Option<by_time::Settings>,
    /// Inputs are copied before the call.
    pub(crate) copy_inputs: bool,
    /// Messages of other partitions are copied before they are sent on.
    pub(crate) copy_forwarded: bool,
    /// Milliseconds for `init`; 0 = no limit.
    pub(crate) init_timeout_ms: u64,
    /// Device number.
    pub(crate) device_id: i32,
    /// Which replica of how many.
    pub(crate) instance: (i32, i32),
}

fn bad(path: &Path, what: impl core::fmt::Display) -> Failure {
    Failure::new(Code::FLOW_FUNC_FAILED, format!("{}: {what}", path.display()))
}

fn read(path: &Path, limit: usize) -> Result<Vec<u8>, Failure> {
    request::read(path, limit, Code::FLOW_FUNC_FAILED)
}

fn only<T>(mut all: Vec<T>, path: &Path, what: &str) -> Result<T, Failure> {
    let found = all.len();
    match all.pop() {
        Some(one) if found == 1 => Ok(one),
        _ => Err(bad(path, format_args!("found {found} {what}, expected exactly one"))),
    }
}

/// Reads both files.
///
/// # Errors
/// What is wrong, with the file.
pub(crate) fn load(args: &UdfArgs, logger: &Logger) -> Result<Model, Failure> {
    let load_path = args.load_file();
    let bytes = read(&load_path, CONTROL_BYTES_MAX)?;
    let batch = decode_load_file(&bytes).map_err(|e| decoded(&load_path, e))?;
    let request = only(batch.models, &load_path, "models")?;
    let model_path = args.under_base(OsStr::new(&request.model_path));
    let bytes = read(&model_path, MODEL_BYTES_MAX)?;
    let defs = decode_udf_model(&bytes).map_err(|e| decoded(&model_path, e))?.udf_def;
    let def = only(defs, &model_path, "definitions")?;
    refuse_unsupported(&request, &def, &load_path)?;
    request::close_inherited(&load_path);
    request::close_inherited(&model_path);
    build(args, request, def, &model_path, logger)
}

fn decoded(path: &Path, error: executor_rt::proto::DecodeError) -> Failure {
    Failure::new(error.code(), format!("{}: {error}", path.display()))
}

fn refuse_unsupported(
    request: &LoadModelRequest,
    def: &UdfDef,
    path: &Path,
) -> Result<(), Failure> {
    let unsupported = [
        (def.func_inputs_map.len() > 1, "several functions in one process (func_inputs_map)"),
        (!def.stream_input_func_name.is_empty(), "stream functions (stream_input_func_name)"),
        (!request.invoked_model_queues_attrs.is_empty(), "invoked models"),
        (request.enable_exception_catch, "exceptions by trans_id (enable_exception_catch)"),
    ];
    match unsupported.iter().find(|(asked, _)| *asked) {
        Some((_, what)) => Err(Failure::new(
            Code::FLOW_FUNC_NOT_SUPPORT,
            format!("{}: {what}: not supported by this version", path.display()),
        )),
        None => Ok(()),
    }
}

fn build(
    args: &UdfArgs,
    request: LoadModelRequest,
    def: UdfDef,
    model_path: &Path,
    logger: &Logger,
) -> Result<Model, Failure> {
    let node = request.node_options.clone().unwrap_or_default();
    let (library, work_path) = library_of(&node.library_path, &def, model_path)?;
    let function = match (def.func_name.as_str(), def.func_inputs_map.keys().next()) {
        ("", Some(name)) => name.clone(),
        (name, _) => name.to_owned(),
    };
    if node.holds > 1 {
        let holds = node.holds;
        report::warn(
            logger,
            None,
            format_args!("holds = {holds}: one input set at a time is held by this version"),
        );
    }
    let count =
        |n: u32, default| if n == 0 { default } else { i32::try_from(n).unwrap_or(default) };
    Ok(Model {
        node: if node.node_name.is_empty() { def.name.clone() } else { node.node_name.clone() },
        name: def.name,
        function,
        library,
        work_path,
        attrs: def.attrs,
        inputs: request::inputs(&request),
        outputs: request::outputs(&request),
        copy_inputs: node.copy_inputs,
        copy_forwarded: node.copy_forwarded,
        init_timeout_ms: node.init_timeout_ms,
        device_id: args.phy_device_id,
        instance: (count(request.replica_idx, 0), count(request.replica_num, 1)),
        options: request::options(&request, Code::FLOW_FUNC_FAILED)?,
        align: request::align(&request, Code::FLOW_FUNC_FAILED)?,
        align_time: {
            let inputs = request::inputs(&request).len();
            request::align_time(&request, inputs, Code::FLOW_FUNC_FAILED)?
        },
    })
}

/// File of the library and work path: as the graph resolved it, or beside the model file.
fn library_of(
    resolved: &str,
    def: &UdfDef,
    model_path: &Path,
) -> Result<(String, String), Failure> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if resolved.is_empty() && (def.bin_name.is_empty() || !def.bin_name.chars().all(known)) {
        let found = &def.bin_name;
        let text = format_args!("bin_name: found {found:?}, expected characters of [A-Za-z0-9._-]");
        return Err(bad(model_path, text));
    }
    if def.bin_name == BUILT_IN {
        return Ok((BUILT_IN.to_owned(), String::new()));
    }
    let real = std::fs::canonicalize(model_path).unwrap_or_else(|_| model_path.to_owned());
    let mut folder = real.into_os_string();
    folder.push("_dir");
    let folder = PathBuf::from(folder);
    let library = if resolved.is_empty() { folder.join(&def.bin_name) } else { resolved.into() };
    let work_path = if folder.is_dir() { folder } else { PathBuf::new() };
    let text = |path: PathBuf| {
        path.into_os_string().into_string().map_err(|_| bad(model_path, "path is no UTF-8"))
    };
    Ok((text(library)?, text(work_path)?))
}
