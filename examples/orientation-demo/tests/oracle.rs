//! `prepare` against the Python package's own preprocessing, on every page of the set.
//!
//! Needs what `cargo xtask test setup` makes; without it the tests say so and pass.

use orientation::{Prepare, TENSOR_LEN};
use orientation_demo::oracle::{Expected, Oracle};
use orientation_demo::set::{self, Page};
use orientation_demo::turn::turned;
use orientation_demo::verdict::{CONFIDENCE_DIFF_MAX, Found, PAGES_MIN};
use std::path::PathBuf;

/// Pages that are rendered by code.
const RENDERED: usize = 12;

/// Largest difference of a tensor's value where both have the same pixels.
const PNG_DIFF_MAX: f32 = 1e-6;
/// Largest difference where the decoders differ, about six steps of a byte.
const JPEG_DIFF_MAX: f32 = 0.12;

fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(one, two)| (one - two).abs()).fold(0.0, f32::max)
}

/// The oracle, or why there is none; where it can be made, `cargo xtask test` has made it.
fn oracle() -> Option<Oracle> {
    Oracle::find().inspect_err(|missing| println!("skipped: {missing}")).ok()
}

fn is_jpeg(page: &Page) -> bool {
    page.file.starts_with(b"\xFF\xD8")
}

fn pages(rendered: usize) -> Vec<Page> {
    let directory = std::env::var_os("DFLOW_PAGES_DIR").map(PathBuf::from);
    set::collect(directory.as_deref(), rendered).expect("pages")
}

fn ask(oracle: &Oracle, pages: &[Page], with_tensors: bool) -> Vec<Expected> {
    let files: Vec<&[u8]> = pages.iter().map(|page| page.file.as_slice()).collect();
    oracle.ask(&files, with_tensors).expect("answers")
}

#[test]
fn tensors_are_those_of_the_package() {
    let Some(oracle) = oracle() else { return };
    let pages = pages(RENDERED);
    assert!(pages.len() >= PAGES_MIN, "{} pages", pages.len());
    let all = ask(&oracle, &pages, true);
    let mut prepare = Prepare::default();
    let mut ours = vec![0.0; TENSOR_LEN];
    let (mut equal, mut worst) = (0, 0.0_f32);
    for (page, theirs) in pages.iter().zip(&all) {
        let Page { name, degrees, file } = page;
        prepare.run(file, &mut ours).expect("a page");
        let diff = difference(&ours, &theirs.tensor);
        let limit = if is_jpeg(page) { JPEG_DIFF_MAX } else { PNG_DIFF_MAX };
        assert!(diff <= limit, "{name} turned by {degrees}: {diff}");
        equal += usize::from(diff == 0.0);
        worst = worst.max(diff);
    }
    println!("{equal} of {} tensors equal bit for bit, largest difference {worst}", pages.len());
    // A turn is clockwise, as the package counts: it is right about all that is plain text.
    for (page, theirs) in pages.iter().zip(&all).rev().take(4 * RENDERED) {
        assert_eq!(theirs.label, page.degrees.to_string(), "{}", page.name);
    }
}

/// The same model on the pixels of both decoders: what is left of `JPEG_DIFF_MAX` in the end.
#[test]
fn another_jpeg_decoder_changes_no_answer() {
    let Some(oracle) = oracle() else { return };
    let theirs: Vec<Page> = pages(0).into_iter().filter(is_jpeg).collect();
    let ours: Vec<Page> = theirs
        .iter()
        .map(|page| Page { file: turned(&page.file, 0).expect("decodes"), ..page.clone() })
        .collect();
    let (expected, answers) = (ask(&oracle, &theirs, false), ask(&oracle, &ours, false));
    for ((page, expected), Expected { label, confidence, millis, .. }) in
        theirs.iter().zip(&expected).zip(answers)
    {
        let found = Found { answer: Ok((label, confidence)), millis };
        let diff = found.confidence_diff(expected);
        println!("{}: confidence differs by {diff:e}", page.name);
        assert!(found.agrees(expected) && diff <= CONFIDENCE_DIFF_MAX, "{}: {diff}", page.name);
    }
}
