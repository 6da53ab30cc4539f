//! `prepare` against the Python package's own preprocessing, on every page of the set.
//!
//! Needs what `cargo xtask test` makes; without it the test says so and passes.

use orientation::{Prepare, TENSOR_LEN};
use orientation_demo::oracle::Oracle;
use orientation_demo::set::{self, Page};
use std::path::PathBuf;

/// Largest difference of a tensor's value where both have the same pixels.
const PNG_DIFF_MAX: f32 = 1e-6;
/// Largest difference where the decoders differ, about six steps of a byte.
const JPEG_DIFF_MAX: f32 = 0.12;

fn difference(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(one, two)| (one - two).abs()).fold(0.0, f32::max)
}

#[test]
fn tensors_are_those_of_the_package() {
    let oracle = match Oracle::find() {
        Ok(oracle) => oracle,
        Err(missing) => return println!("skipped: {missing}"),
    };
    let directory = std::env::var_os("DFLOW_PAGES_DIR").map(PathBuf::from);
    let pages = set::collect(directory.as_deref(), 12).expect("pages");
    let files: Vec<&[u8]> = pages.iter().map(|page| page.file.as_slice()).collect();
    let all = oracle.ask(&files, true).expect("answers");
    let mut prepare = Prepare::default();
    let mut ours = vec![0.0; TENSOR_LEN];
    let (mut equal, mut worst) = (0, 0.0_f32);
    for (page, theirs) in pages.iter().zip(&all) {
        let Page { name, degrees, file } = page;
        prepare.run(file, &mut ours).expect("a page");
        let diff = difference(&ours, &theirs.tensor);
        let limit = if file.starts_with(b"\xFF\xD8") { JPEG_DIFF_MAX } else { PNG_DIFF_MAX };
        println!("{name} {degrees}: {diff:e}, label {}", theirs.label);
        assert!(diff <= limit, "{name} turned by {degrees}: {diff}");
        equal += usize::from(diff == 0.0);
        worst = worst.max(diff);
    }
    println!("{equal} of {} tensors equal bit for bit, largest difference {worst}", pages.len());
}
