//! The functions before the recogniser against the Python package, on every page of the set: the
//! same canvas, the same boxes on the same map, the same lines cut out.
//!
//! Needs what `cargo xtask test setup` makes; without it the test says so and passes.

use ocr::boxes::{self, Limits};
use ocr::lines::Cutter;
use ocr::mark::Corners;
use ocr::page::Page;
use ocr_demo::oracle::{self, Details, Sizes};
use ocr_demo::set;
use std::path::Path;

/// Largest difference of a corner, pixels.
const CORNER_DIFF_MAX: f32 = 1.0;
/// A place just between two parts of a pixel may be rounded to the other one: one sample of so
/// many.
const SAMPLES_PER_TIE: usize = 100;

#[test]
fn canvas_boxes_and_lines_are_those_of_the_package() {
    let Some(folder) = std::env::var_os("DFLOW_PAGES_DIR") else {
        println!("skipped: DFLOW_PAGES_DIR is not set");
        return;
    };
    let pages = set::standard(Path::new(&folder), 4).expect("pages");
    let files: Vec<&[u8]> = pages.iter().map(|page| page.file.as_slice()).collect();
    let details = match oracle::details(&files, Sizes::default()) {
        Ok(details) => details,
        // Where it can be made, `cargo xtask test` has made it.
        Err(missing) if missing.contains("cargo xtask test setup") => {
            println!("skipped: {missing}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let (width, height) = Sizes::default().canvas;
    let (mut canvas, mut cutter) = (vec![0; 3 * width * height], Cutter::default());
    let (mut count, mut exact) = (0, 0);
    for (page, Details { canvas: expected, map, boxes, lines }) in pages.iter().zip(&details) {
        let name = &page.name;
        Page::default().draw(&page.file, &mut canvas).expect("a page");
        assert!(canvas == *expected, "{name}: another canvas");
        let found = boxes::find(map, width, &Limits::default());
        assert_eq!(found.len(), boxes.len(), "{name}: boxes");
        for (found, expected) in found.iter().zip(boxes) {
            let diff = difference(&found.corners, expected);
            assert!(diff <= CORNER_DIFF_MAX, "{name}: {found:?}, expected {expected:?}");
            exact += usize::from(diff == 0.0);
        }
        for (corners, (sides, pixels)) in boxes.iter().zip(lines) {
            cutter.cut(&canvas, width, corners);
            assert_eq!(cutter.line().0, *sides, "{name}: {corners:?}");
            let pairs = cutter.line().1.iter().zip(pixels);
            let off = pairs.filter(|(one, other)| one != other).count();
            println!("{name}: {off} of {} samples of a line differ", pixels.len());
            assert!(off <= pixels.len() / SAMPLES_PER_TIE, "{name}: {corners:?}: {off} differ");
        }
        count += boxes.len();
    }
    assert!(count > 30, "{count} lines");
    println!("{exact} of {count} boxes equal to the pixel");
}

fn difference(ours: &Corners, theirs: &Corners) -> f32 {
    let pairs = ours.as_flattened().iter().zip(theirs.as_flattened());
    pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}
