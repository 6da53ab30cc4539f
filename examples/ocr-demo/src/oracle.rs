//! The Python package rapidocr-onnxruntime on the same pages, by `oracle.py`.

use demo_flow::oracle;
use ocr::gather::Line;
use ocr::mark::Corners;
use serde_json::{Value, json};
use std::io::{BufRead, Read};

const SCRIPT: &str = include_str!("../oracle.py");
/// What an unpacked package contains.
const PACKAGE: &str = "rapidocr_onnxruntime/main.py";

/// Sizes at which the package reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Width and height of the detector's input.
    pub canvas: (usize, usize),
    /// Width of the recogniser's input.
    pub line: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { canvas: (736, 736), line: 1024 }
    }
}

/// What the package reads on one page.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    /// Its lines.
    pub lines: Vec<Line>,
    /// Its time for the page, milliseconds.
    pub millis: f64,
    /// The most memory its process had so far, KiB.
    pub peak_kib: u64,
    /// Threads it may use.
    pub threads: u64,
}

/// The package in a process of its own, which waits for pages.
#[derive(Debug)]
pub struct Package(oracle::Running);

impl Package {
    /// Starts it.
    ///
    /// # Errors
    /// The oracle is missing.
    pub fn start(sizes: Sizes) -> Result<Package, String> {
        let (width, height) = sizes.canvas;
        let settings = json!({"width": width, "height": height, "rec_width": sizes.line});
        let oracle = oracle::Oracle::find(PACKAGE)?;
        oracle.start(SCRIPT, &[settings.to_string()]).map(Package)
    }

    /// Reads a page.
    ///
    /// # Errors
    /// The script fails or answers something else than expected.
    pub fn read(&mut self, file: &[u8]) -> Result<Expected, String> {
        self.0.ask(file, answer)
    }

    /// Ends it.
    ///
    /// # Errors
    /// It failed.
    pub fn end(self) -> Result<(), String> {
        self.0.end()
    }
}

/// What the package does with one page on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// The page on its canvas: blue, green, red.
    pub canvas: Vec<u8>,
    /// What the detector says of every pixel.
    pub map: Vec<f32>,
    /// Boxes on the canvas in reading order.
    pub boxes: Vec<Corners>,
    /// Width, height and pixels of every line, cut out.
    pub lines: Vec<((usize, usize), Vec<u8>)>,
}

/// Asks what the package does with every page on its way to the recogniser.
///
/// # Errors
/// The oracle is missing, its script fails or answers something else than expected.
pub fn details(files: &[&[u8]], sizes: Sizes) -> Result<Vec<Details>, String> {
    let (width, height) = sizes.canvas;
    let settings =
        json!({"width": width, "height": height, "rec_width": sizes.line, "details": true});
    let oracle = oracle::Oracle::find(PACKAGE)?;
    oracle.ask(SCRIPT, &[settings.to_string()], files, |output| detail(output, sizes))
}

fn detail(output: &mut impl BufRead, sizes: Sizes) -> Result<Option<Details>, String> {
    let Some(object) = object(output)? else { return Ok(None) };
    let wrong = || format!("expected a page's details, found {object}");
    let mut bytes = Vec::new();
    let len = object["bytes"].as_u64().ok_or_else(wrong)?;
    output.take(len).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let mut rest = bytes.as_slice();
    let mut part = |len: usize| {
        let (part, behind) = rest.split_at_checked(len).ok_or("the details end too early")?;
        rest = behind;
        Ok::<_, String>(part.to_vec())
    };
    let pixels = sizes.canvas.0 * sizes.canvas.1;
    let canvas = part(3 * pixels)?;
    let map = part(4 * pixels)?;
    let map = map.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let boxes = object["boxes"].as_array().ok_or_else(wrong)?;
    let boxes = boxes.iter().map(|one| corners(one).ok_or_else(wrong)).collect::<Result<_, _>>()?;
    let mut lines = Vec::new();
    for sides in object["sizes"].as_array().ok_or_else(wrong)? {
        let side = |at: usize| sides[at].as_u64().and_then(|side| usize::try_from(side).ok());
        let (height, width) = side(0).zip(side(1)).ok_or_else(wrong)?;
        lines.push(((width, height), part(3 * width * height)?));
    }
    Ok(Some(Details { canvas, map, boxes, lines }))
}

/// The next row of the script's answers; `None` at their end.
fn object(output: &mut impl BufRead) -> Result<Option<Value>, String> {
    let mut row = String::new();
    if output.read_line(&mut row).map_err(|error| error.to_string())? == 0 {
        return Ok(None);
    }
    let object = serde_json::from_str(&row);
    object.map(Some).map_err(|_| format!("expected a page's JSON object, found {row}"))
}

fn answer(output: &mut impl BufRead) -> Result<Option<Expected>, String> {
    let Some(object) = object(output)? else { return Ok(None) };
    let wrong = || format!("expected what a page says, found {object}");
    let lines = object["lines"].as_array().ok_or_else(wrong)?;
    let lines = lines.iter().map(|one| line(one).ok_or_else(wrong)).collect::<Result<_, _>>()?;
    let whole = |key: &str| object[key].as_u64().ok_or_else(wrong);
    let millis = object["ms"].as_f64().ok_or_else(wrong)?;
    Ok(Some(Expected { lines, millis, peak_kib: whole("peak_kib")?, threads: whole("threads")? }))
}

fn line(value: &Value) -> Option<Line> {
    let (corners, text) = (corners(&value["corners"])?, value["text"].as_str()?.to_owned());
    Some(Line { confidence: number(&value["confidence"])?, corners, text })
}

fn corners(value: &Value) -> Option<Corners> {
    let mut corners = Corners::default();
    for (at, corner) in corners.iter_mut().enumerate() {
        *corner = [number(&value[at][0])?, number(&value[at][1])?];
    }
    Some(corners)
}

fn number(value: &Value) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "rounded to what the flow has")]
    value.as_f64().map(|number| number as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_line_of_json() {
        let row = r#"{"lines": [{"text": "é", "confidence": 0.5, "corners":
            [[1, 2], [3, 2], [3, 4.5], [1, 4.5]]}], "ms": 7.5, "peak_kib": 9, "threads": 2}"#;
        let row = row.replace('\n', "");
        let expected = answer(&mut row.as_bytes()).expect("reads").expect("an answer");
        assert_eq!((expected.millis, expected.peak_kib, expected.threads), (7.5, 9, 2));
        assert_eq!(expected.lines[0].text, "é");
        assert_eq!(expected.lines[0].corners[2], [3.0, 4.5]);
        assert_eq!(answer(&mut &b""[..]), Ok(None));
        let cut = answer(&mut &row.as_bytes()[..20]).expect_err("cut");
        assert!(cut.contains("expected a page's JSON object"), "{cut}");
    }
}
