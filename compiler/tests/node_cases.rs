//! ONNX's node cases through compiler and engine: each passes, or is refused with a reason when it
//! is compiled; none is wrong. What came of them is docs/conformance.md, which is compared with the
//! run (`DFLOW_WRITE=1` writes it), so what passes cannot become less without being said.
//!
//! Runs when `DFLOW_VENV` names a Python environment, or `DFLOW_ORACLE` a Python that exists, with
//! the package `onnx` in the version that the document names; says so when neither does.
#![deny(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use compiler::{CompileError, Options, compile, import, symbols};
use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::element::Element;
use npu::engine::{Input, Model};
use npu::half::{Bf16, F16};
use npu::ops::OpError;
use npu::shape::Shape;
use npu::tensor::TensorInfo;

/// Cases whose expected values are less exact than their tolerance, and what is taken instead of
/// its absolute part: numpy computes with complex numbers of 32 bits there, so that what is 0 by
/// the definition is 2e-7 beside values of 50.
const INEXACT: [(&str, f64); 2] = [("test_dft_inverse", 5e-7), ("test_dft_inverse_opset19", 5e-7)];

/// Fewest cases that have to pass: of all, of those of [`CORE`] types, and of those among these
/// that have no empty tensor.
const FLOOR: (usize, usize, usize) = (1179, 896, 864);
/// Types of the cases that other engines were compared by.
const CORE: [DataType; 3] = [DataType::FLOAT, DataType::INT32, DataType::INT64];

/// ONNX's numbers of our types.
const NUMBERS: [(u8, DataType); 13] = [
    (1, DataType::FLOAT),
    (2, DataType::UINT8),
    (3, DataType::INT8),
    (4, DataType::UINT16),
    (5, DataType::INT16),
    (6, DataType::INT32),
    (7, DataType::INT64),
    (9, DataType::BOOL),
    (10, DataType::FLOAT16),
    (11, DataType::DOUBLE),
    (12, DataType::UINT32),
    (13, DataType::UINT64),
    (16, DataType::BF16),
];

/// A tensor of a case, with its value.
struct Value {
    info: TensorInfo,
    bytes: AlignedBytes,
}

impl Value {
    /// `type:dims:file`; what else it is when it has none of our types.
    fn read(folder: &Path, text: &str) -> Result<Self, String> {
        let [dtype, dims, file] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err(text.trim_start_matches('?').to_owned());
        };
        let dtype = DataType::from_name(dtype).ok_or_else(|| dtype.to_owned())?;
        let dims = dims.split(',').filter(|dim| !dim.is_empty());
        let dims: Vec<usize> = dims.map(|dim| dim.parse().expect("a dim")).collect();
        let bytes = std::fs::read(folder.join(file)).expect("the file of a value");
        let shape = Shape::new(&dims).map_err(|error| error.to_string())?;
        Ok(Self { info: TensorInfo::new(dtype, shape), bytes: AlignedBytes::copy_of(&bytes) })
    }

    /// The first difference beyond the tolerance. Of bfloat16 up to four roundings pass (2^-6 of
    /// the value): values expected of Attention were rounded after each step and are off by up to
    /// 0.0095 of what f64 gives, those found are rounded once; the cases' own tolerance is below
    /// one rounding.
    fn differs(&self, found: &[u8], (rtol, atol): (f64, f64)) -> Option<String> {
        let rtol = if self.info.dtype == DataType::BF16 { rtol.max(1.0 / 64.0) } else { rtol };
        let (expected, found) =
            (floats(self.info.dtype, &self.bytes), floats(self.info.dtype, found));
        let (Some(expected), Some(found)) = (expected, found) else {
            return Some("a type without a comparison".to_owned());
        };
        let pairs = expected.iter().zip(&found).enumerate();
        let mut wrong = pairs.filter(|(_, (expected, found))| {
            let same = expected == found || (expected.is_nan() && found.is_nan());
            let near = (*found - *expected).abs() <= atol + rtol * expected.abs();
            !same && !near
        });
        wrong.next().map(|(at, (expected, found))| format!("[{at}] is {found}, not {expected}"))
    }
}

/// Values as floats. Large whole numbers are compared to their 53 highest bits.
fn floats(dtype: DataType, bytes: &[u8]) -> Option<Vec<f64>> {
    fn own<T: Element, const N: usize>(bytes: &[u8], of: fn([u8; N]) -> T) -> Option<Vec<f64>> {
        Some(bytes.as_chunks::<N>().0.iter().map(|word| of(*word).to_f64()).collect())
    }
    match dtype {
        DataType::FLOAT => own(bytes, f32::from_le_bytes),
        DataType::DOUBLE => own(bytes, f64::from_le_bytes),
        DataType::FLOAT16 => own(bytes, |word| F16(u16::from_le_bytes(word))),
        DataType::BF16 => own(bytes, |word| Bf16(u16::from_le_bytes(word))),
        DataType::INT8 => own(bytes, i8::from_le_bytes),
        DataType::INT16 => own(bytes, i16::from_le_bytes),
        DataType::INT32 => own(bytes, i32::from_le_bytes),
        DataType::INT64 => own(bytes, i64::from_le_bytes),
        DataType::UINT8 | DataType::BOOL => own(bytes, u8::from_le_bytes),
        DataType::UINT16 => own(bytes, u16::from_le_bytes),
        DataType::UINT32 => own(bytes, u32::from_le_bytes),
        DataType::UINT64 => own(bytes, u64::from_le_bytes),
        _ => None,
    }
}

/// A case as the script wrote it.
struct Case<'a> {
    name: &'a str,
    ops: &'a str,
    model: Vec<u8>,
    tolerance: (f64, f64),
    /// Inputs of the first node.
    node: Vec<&'a str>,
    inputs: Vec<(&'a str, Result<Value, String>)>,
    outputs: Vec<Result<Value, String>>,
}

impl<'a> Case<'a> {
    fn read(folder: &'a Path, line: &'a str) -> Self {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, ops, model, rtol, atol, node, inputs, outputs] = columns[..] else {
            panic!("{line}")
        };
        let list = |text: &'a str| text.split('\u{1f}').filter(|one| !one.is_empty());
        let inputs = list(inputs).map(|input| {
            let (name, value) = input.split_once(':').expect("name:value");
            (name, Value::read(folder, value))
        });
        let inexact = INEXACT.iter().find(|(own, _)| *own == name);
        let atol = inexact.map_or_else(|| atol.parse().expect("atol"), |(_, atol)| *atol);
        Self {
            name,
            ops,
            model: std::fs::read(folder.join(model)).expect("the model of a case"),
            tolerance: (rtol.parse().expect("rtol"), atol),
            node: node.split(' ').collect(),
            inputs: inputs.collect(),
            outputs: list(outputs).map(|output| Value::read(folder, output)).collect(),
        }
    }

    /// Types of all its tensors; also of those that are none of ours.
    fn types(&self) -> BTreeSet<String> {
        let inputs = self.inputs.iter().map(|(_, value)| value);
        let name = |value: &Result<Value, String>| match value {
            Ok(value) => value.info.dtype.name().unwrap_or("?").to_owned(),
            Err(other) => other.clone(),
        };
        inputs.chain(&self.outputs).map(name).filter(|name| name != "absent").collect()
    }

    fn is_core(&self) -> bool {
        self.all(|info| CORE.contains(&info.dtype))
    }

    /// Of the core, and each input and output has at least one element.
    fn is_dense(&self) -> bool {
        self.is_core() && self.all(|info| info.shape.elements() > 0)
    }

    fn all(&self, of: impl Fn(&TensorInfo) -> bool) -> bool {
        let inputs = self.inputs.iter().map(|(_, value)| value);
        inputs.chain(&self.outputs).all(|value| value.as_ref().is_ok_and(|value| of(&value.info)))
    }
}

/// What came of a case.
enum Outcome {
    /// It passed; with so many inputs as constants.
    Passed(usize),
    /// It was refused, and why.
    Refused(String),
    /// It is wrong.
    Wrong(String),
}

/// The model with an input as a constant: a second `graph` is merged into the first.
fn with_constant(model: &mut Vec<u8>, name: &str, value: &Value) {
    fn field(into: &mut Vec<u8>, key: u8, bytes: &[u8]) {
        into.push(key);
        varint(into, bytes.len());
        into.extend_from_slice(bytes);
    }
    fn varint(into: &mut Vec<u8>, mut value: usize) {
        while value >= 0x80 {
            into.push(0x80 | value.to_le_bytes()[0] & 0x7f);
            value >>= 7;
        }
        into.push(value.to_le_bytes()[0]);
    }
    let (mut tensor, mut graph) = (Vec::new(), Vec::new());
    for dim in value.info.shape.dims() {
        tensor.push(0x08);
        varint(&mut tensor, *dim);
    }
    let number = NUMBERS.iter().find(|(_, own)| *own == value.info.dtype);
    tensor.extend([0x10, number.expect("one of our types").0]);
    field(&mut tensor, 0x42, name.as_bytes());
    field(&mut tensor, 0x4a, &value.bytes);
    field(&mut graph, 0x2a, &tensor);
    field(model, 0x3a, &graph);
}

fn run(case: &Case<'_>) -> Outcome {
    let mut model = case.model.clone();
    let mut constants: Vec<&str> = Vec::new();
    loop {
        let given = |(name, value): &(&str, Result<Value, String>)| {
            let dims = value.as_ref().ok()?.info.shape.dims().to_vec();
            (!constants.contains(name)).then(|| ((*name).to_owned(), dims))
        };
        let input_shapes = case.inputs.iter().filter_map(given).collect();
        let options = Options { input_shapes, ..Options::default() };
        let compiled = match compile(model.clone().into(), &options) {
            Ok(compiled) => compiled,
            Err(CompileError::Program(error)) => return Outcome::Wrong(error.to_string()),
            Err(error) => {
                // An input that decides about shapes is given as a constant.
                let input = match &error {
                    CompileError::Op { error: OpError::NotConstant { input, .. }, .. } => *input,
                    _ => return Outcome::Refused(error.to_string()),
                };
                let name = case.node.get(input).copied().unwrap_or_default();
                let value = case.inputs.iter().find(|(own, _)| *own == name);
                let Some((name, Ok(value))) = value.filter(|_| !constants.contains(&name)) else {
                    return Outcome::Refused(error.to_string());
                };
                constants.push(name);
                with_constant(&mut model, name, value);
                continue;
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| compare(case, &constants, compiled.om)));
        return match outcome {
            Ok(Ok(())) => Outcome::Passed(constants.len()),
            Ok(Err(what)) => Outcome::Wrong(what),
            Err(_) => Outcome::Wrong("it panicked".to_owned()),
        };
    }
}

fn compare(case: &Case<'_>, constants: &[&str], om: AlignedBytes) -> Result<(), String> {
    let model = Model::load(om).map_err(|error| error.to_string())?;
    let mut inputs = Vec::new();
    for (name, value) in case.inputs.iter().filter(|(name, _)| !constants.contains(name)) {
        let value = value.as_ref().map_err(|kind| format!("input {name} is {kind}"))?;
        inputs.push(Input { info: value.info, bytes: &value.bytes });
    }
    if model.outputs().len() != case.outputs.len() {
        return Err(format!("{} outputs, not {}", model.outputs().len(), case.outputs.len()));
    }
    let mut found: Vec<AlignedBytes> =
        model.outputs().map(|info| AlignedBytes::zeroed(info.bytes())).collect();
    let mut memory: Vec<&mut [u8]> = found.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    arena.fill(0xEE);
    model.run(&inputs, &mut memory, &mut arena).map_err(|error| error.to_string())?;
    for (index, ((own, found), expected)) in
        model.outputs().zip(&found).zip(&case.outputs).enumerate()
    {
        let expected = expected.as_ref().map_err(|kind| format!("output {index} is {kind}"))?;
        if *own != expected.info {
            return Err(format!("output {index} is {own}, not {}", expected.info));
        }
        if let Some(what) = expected.differs(found, case.tolerance) {
            return Err(format!("output {index}{what}"));
        }
    }
    Ok(())
}

/// Whether shapes in symbols, with all dims of inputs open, say what the outputs are: `None` where
/// they do not say it.
fn follows(case: &Case<'_>) -> Option<bool> {
    let imported = import(case.model.clone().into()).ok()?.with_open_dims();
    let names: Vec<String> = imported.input_names().map(str::to_owned).collect();
    let value = |name: &String| case.inputs.iter().find(|(own, _)| own == name);
    let dims = names.iter().filter_map(|name| {
        let (name, value) = value(name)?;
        Some((*name, value.as_ref().ok()?.info.shape.dims()))
    });
    let given: Vec<(&str, &[usize])> = dims.collect();
    let symbols = symbols(&imported);
    let shapes = symbols.shapes(&given)?;
    let mut all = true;
    for ((name, _), expected) in symbols.outputs.iter().zip(&case.outputs) {
        let expected = expected.as_ref().ok()?.info.shape;
        let expected = expected.dims().iter().map(|dim| i64::try_from(*dim).unwrap_or(-1));
        all &= *shapes.get(name.as_str())? == expected.collect::<Vec<_>>();
    }
    Some(all)
}

/// Counts of cases.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: usize,
    refused: usize,
}

impl Count {
    fn add(&mut self, passed: bool) {
        *if passed { &mut self.passed } else { &mut self.refused } += 1;
    }
}

/// What came of all of them.
#[derive(Default)]
struct Report {
    all: Count,
    core: Count,
    dense: Count,
    /// Those of `dense` that passed without.
    at_run_time: usize,
    /// Passed with inputs that decide about shapes given as constants.
    constants: usize,
    ops: BTreeMap<String, (Count, BTreeMap<String, usize>)>,
    types: BTreeMap<String, Count>,
    /// Passed, and the shapes of their outputs were known in symbols of their inputs' dims.
    followed: usize,
    wrong: Vec<String>,
}

/// A reason without what differs from case to case.
fn general(reason: &str) -> String {
    if reason.contains("the op is not supported") {
        return "not in the op table".to_owned();
    }
    let reason = match (reason.split_once("): "), reason.split_once("`: ")) {
        (Some((node, rest)), _) if node.starts_with("node ") => rest,
        (_, Some((_, rest))) => rest,
        _ => reason,
    };
    reason.replace('|', "/")
}

impl Report {
    fn add(&mut self, case: &Case<'_>) {
        let outcome = run(case);
        let passed = match &outcome {
            Outcome::Wrong(what) => {
                self.wrong.push(format!("{} ({}): {what}", case.name, case.ops));
                return;
            }
            Outcome::Passed(constants) => {
                self.constants += usize::from(*constants > 0);
                true
            }
            Outcome::Refused(_) => false,
        };
        match follows(case).filter(|_| passed) {
            Some(true) => self.followed += 1,
            Some(false) => self.wrong.push(format!("{}: another shape in symbols", case.name)),
            None => {}
        }
        self.all.add(passed);
        if case.is_core() {
            self.core.add(passed);
        }
        if case.is_dense() {
            self.dense.add(passed);
            self.at_run_time += usize::from(matches!(outcome, Outcome::Passed(0)));
        }
        let (count, reasons) = self.ops.entry(case.ops.to_owned()).or_default();
        count.add(passed);
        if let Outcome::Refused(reason) = outcome {
            *reasons.entry(general(&reason)).or_default() += 1;
        }
        case.types().into_iter().for_each(|name| self.types.entry(name).or_default().add(passed));
    }

    /// Of the first row of the document: what `figures conformance` prints.
    fn figure(&self) -> String {
        let Count { passed, refused } = self.dense;
        let types = self.types.iter().map(|(name, Count { passed, refused })| {
            format!("\"{name}\":{{\"passed\":{passed},\"refused\":{refused}}}")
        });
        let types = types.collect::<Vec<_>>().join(",");
        let (total, at_run_time, wrong) = (passed + refused, self.at_run_time, self.wrong.len());
        format!(
            "{{\"total\":{total},\"passed\":{passed},\"refused\":{refused},\"wrong\":{wrong},\
             \"all_passed\":{},\"all_refused\":{},\"runtime_inputs_passed\":{at_run_time},\
             \"runtime_inputs_total\":{total},\"by_type\":{{{types}}}}}",
            self.all.passed, self.all.refused
        )
    }

    fn document(&self, version: &str) -> String {
        let mut text = "# ONNX's node cases\n\n".to_owned();
        let Count { passed, refused } = self.all;
        let (core, sum) = (self.core, passed + refused);
        let constants = self.constants;
        let _always = write!(
            text,
            "What `compiler/tests/node_cases.rs` found with the package onnx {version}, and writes \
             with `DFLOW_WRITE=1`: the\ncases of `onnx.backend.test.case.node` that are not a \
             function's body in other ops. A case passes within its own\ntolerance (rtol 1e-3, \
             atol 1e-7 by default; of bfloat16 1/64 at least, {} with another atol, as numpy's \
             numbers are less exact\nthere), or is refused when it is compiled; the test fails if \
             one is wrong.\n\nOther engines were counted on cases whose inputs and outputs are all \
             float32, int32 or int64 and have at least\none element each, which is the first row \
             (the second one takes those with empty tensors, too).\n\n\
             | cases | passed | refused |\n|---|---|---|\n",
            INEXACT.len()
        );
        let dense = self.dense;
        for (name, Count { passed, refused }, sum) in [
            ("float32, int32 and int64 only, nothing empty", dense, dense.passed + dense.refused),
            ("float32, int32 and int64 only", core, core.passed + core.refused),
            ("all", self.all, sum),
        ] {
            let _always = writeln!(text, "| {name}: {sum} | {passed} | {refused} |");
        }
        let _always = writeln!(
            text,
            "\n{constants} of those that passed have inputs that decide about shapes, which were \
             given as constants of the model; of\nthe first row {} passed without. Of {}, the \
             shapes of all outputs were known in symbols, with every dim\nof the inputs left open \
             (`dflow compile --explain`), and are right; of the others nothing is said.\n",
            self.at_run_time, self.followed
        );
        text.push_str(
            "## By type\n\nA case counts for each type among its inputs and outputs.\n\n",
        );
        text.push_str("| type | passed | refused |\n|---|---|---|\n");
        for (name, Count { passed, refused }) in &self.types {
            let _always = writeln!(text, "| {name} | {passed} | {refused} |");
        }
        text.push_str("\n## By op\n\n| op | passed | refused | why |\n|---|---|---|---|\n");
        for (name, (Count { passed, refused }, reasons)) in &self.ops {
            let reasons: Vec<String> = reasons
                .iter()
                .map(|(reason, count)| match (count, reasons.len()) {
                    (_, 1) => reason.clone(),
                    _ => format!("{count}: {reason}"),
                })
                .collect();
            let reasons = if reasons.is_empty() { "–".to_owned() } else { reasons.join("; ") };
            let _always = writeln!(text, "| {name} | {passed} | {refused} | {reasons} |");
        }
        text
    }
}

/// A file that an environment variable leads to, if it is there.
fn file(variable: &str, inside: &str) -> Option<PathBuf> {
    let place = PathBuf::from(std::env::var_os(variable)?).join(inside);
    place.is_file().then_some(place)
}

#[test]
fn every_node_case_passes_or_is_refused() {
    let oracle = || std::env::var_os("DFLOW_ORACLE").map(PathBuf::from);
    let python = file("DFLOW_VENV", "bin/python").or_else(|| oracle().filter(|p| p.is_file()));
    let Some(python) = python else {
        eprintln!("skipped: neither DFLOW_VENV nor DFLOW_ORACLE leads to a Python");
        return;
    };
    let has = Command::new(&python).args(["-c", "import onnx"]).output().expect("python starts");
    if !has.status.success() {
        eprintln!("skipped: {} has no package `onnx`", python.display());
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("node-cases");
    std::fs::create_dir_all(&folder).expect("a folder for the cases");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node_cases.py");
    let made = Command::new(python).arg(script).arg(&folder).output().expect("python starts");
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "node_cases.py: {errors}");
    let version = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    let lines = std::fs::read_to_string(folder.join("cases.txt")).expect("cases.txt");
    let mut report = Report::default();
    for line in lines.lines() {
        report.add(&Case::read(&folder, line));
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    println!("{}", report.figure());
    let passed = (report.all.passed, report.core.passed, report.dense.passed);
    let wrong = &report.wrong;
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let enough = passed.0 >= FLOOR.0 && passed.1 >= FLOOR.1 && passed.2 >= FLOOR.2;
    assert!(enough, "fewer pass than before: {passed:?} of {FLOOR:?}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/conformance.md");
    let document = report.document(&version);
    if std::env::var_os("DFLOW_WRITE").is_some() {
        std::fs::write(path, document).expect("docs/conformance.md");
        return;
    }
    let found = std::fs::read_to_string(path).expect("docs/conformance.md");
    if !found.contains(&format!("the package onnx {version}")) {
        eprintln!("skipped: docs/conformance.md is of another version of onnx than {version}");
        return;
    }
    assert!(
        found == document,
        "docs/conformance.md is not what was found; DFLOW_WRITE=1 writes it"
    );
}
