//! Models beside onnxruntime: the same file, the same input, one thread of one core.
//!
//! | file | what |
//! |---|---|
//! | `ours` | a model compiled and run in this process |
//! | `rival.py` | onnxruntime in a process of its own, as a [`Rival`](crate::rival::Rival) |

pub mod case;
pub mod ours;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;

/// The rival's program.
const SCRIPT: &str = include_str!("rival.py");

/// A Python with onnxruntime.
#[derive(Debug)]
pub struct Oracle {
    /// The interpreter.
    pub python: PathBuf,
    /// What onnxruntime says of itself.
    pub version: String,
}

impl Oracle {
    /// The Python that `DFLOW_ORACLE` names; makes the models that no package has in `folder`.
    ///
    /// # Errors
    /// There is none, or it has no onnxruntime.
    pub fn start(folder: &Path) -> Result<Self, Failure> {
        let hint = "`cargo xtask figures kernels` makes one";
        let python = std::env::var_os("DFLOW_ORACLE").map(PathBuf::from).unwrap_or_default();
        let made = Command::new(&python).args(["-c", SCRIPT, "make"]).arg(folder).output();
        let wrong = |what: &str| format!("DFLOW_ORACLE={}: {what}; {hint}", python.display());
        let made = made.map_err(|error| wrong(&error.to_string()))?;
        if !made.status.success() {
            return Err(wrong(&String::from_utf8_lossy(&made.stderr)).into());
        }
        let version = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        Ok(Self { python, version })
    }

    /// The interpreter, as a program to start.
    fn program(&self) -> String {
        self.python.to_string_lossy().into_owned()
    }
}

/// Floats between -0.5 and 0.5, the same for the same seed.
#[must_use]
pub fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // 16 bits: a float holds them.
        f32::from((state >> 48) as u16) / 65536.0 - 0.5
    };
    std::iter::repeat_with(next).take(count).collect()
}
