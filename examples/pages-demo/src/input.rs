//! What is fed: image files of the user or of the demo's cache, and pages rendered by code.

use crate::args::Args;
use pages_render::{PageSpec, Renderer, standard_set};
use std::path::{Path, PathBuf};

/// Largest file that is fed, bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

/// One page to feed.
#[derive(Debug)]
pub(crate) struct Page {
    /// File name.
    pub(crate) name: String,
    /// The whole file.
    pub(crate) file: Vec<u8>,
    /// Skew it was rendered with, degrees.
    pub(crate) known_skew: Option<f64>,
}

/// Everything found.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// Pages in the order they are fed in.
    pub(crate) pages: Vec<Page>,
    /// Files that can't be fed, with the reason.
    pub(crate) refused: Vec<(String, String)>,
    /// Files of other kinds in the directories given.
    pub(crate) skipped: usize,
    /// How many pages were rendered.
    pub(crate) rendered: usize,
}

/// Collects the pages that `args` ask for.
///
/// # Errors
/// Nothing to feed, a directory that can't be read, or a missing font.
pub(crate) fn collect(args: &Args) -> Result<Inputs, String> {
    let mut inputs = Inputs::default();
    if args.paths.is_empty() {
        match std::env::var_os("DFLOW_PAGES_DIR") {
            Some(dir) => add_directory(&mut inputs, Path::new(&dir))?,
            None => eprintln!("DFLOW_PAGES_DIR is not set: rendered pages only"),
        }
    }
    for path in &args.paths {
        if path.is_dir() {
            add_directory(&mut inputs, path)?;
        } else if path.exists() {
            add_file(&mut inputs, path);
        } else {
            return Err(format!("{}: no such file or directory", path.display()));
        }
    }
    render(&mut inputs, args)?;
    if inputs.pages.is_empty() {
        for (name, reason) in &inputs.refused {
            eprintln!("{name}: {reason}");
        }
        let other = inputs.skipped;
        return Err(format!(
            "nothing to feed ({other} files of other kinds than PNG and JPEG); name images, \
             directories of images, or --pages N"
        ));
    }
    Ok(inputs)
}

fn add_directory(inputs: &mut Inputs, dir: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", dir.display());
    let entries = std::fs::read_dir(dir).map_err(wrong)?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            continue;
        }
        if is_image_name(&path) {
            files.push(path);
        } else if !is_hidden(&path) {
            inputs.skipped += 1;
        }
    }
    files.sort();
    files.iter().for_each(|path| add_file(inputs, path));
    Ok(())
}

fn is_image_name(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    !is_hidden(path)
        && ["png", "jpg", "jpeg"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn add_file(inputs: &mut Inputs, path: &Path) {
    let shown = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    match read(path) {
        Ok(file) => inputs.pages.push(Page { name: shown, file, known_skew: None }),
        Err(reason) => inputs.refused.push((path.display().to_string(), reason)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let meta = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if meta.is_file() && meta.len() > FILE_BYTES_MAX {
        let (found, most) = (meta.len() >> 20, FILE_BYTES_MAX >> 20);
        return Err(format!("{found} MiB, at most {most} MiB are fed"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

fn render(inputs: &mut Inputs, args: &Args) -> Result<(), String> {
    let count = args.rendered();
    if count == 0 {
        return Ok(());
    }
    let renderer = Renderer::new().map_err(|error| error.to_string())?;
    for spec in standard_set(count) {
        let spec = PageSpec { seed: spec.seed.wrapping_add(args.seed), ..spec };
        let file = renderer.render(&spec).to_png().map_err(|error| error.to_string())?;
        let known_skew = Some(spec.skew_degrees);
        inputs.pages.push(Page { name: spec.file_name(), file, known_skew });
    }
    inputs.rendered = count;
    Ok(())
}

/// Width × height out of an image's header, to size the flow's buffers; `None` for no image.
pub(crate) fn pixels(file: &[u8]) -> Option<u64> {
    let product = |width: &[u8], height: &[u8]| {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        number(width).checked_mul(number(height))
    };
    if file.starts_with(b"\x89PNG") {
        return product(file.get(16..20)?, file.get(20..24)?);
    }
    let mut rest = file.strip_prefix(b"\xFF\xD8")?;
    loop {
        let [0xFF, kind, high, low, ..] = *rest else { return None };
        // Frame headers are C0..=CF, without tables (C4, CC) and the reserved C8.
        if matches!(kind, 0xC0..=0xCF) && !matches!(kind, 0xC4 | 0xC8 | 0xCC) {
            return product(rest.get(7..9)?, rest.get(5..7)?);
        }
        rest = rest.get(2 + usize::from(u16::from_be_bytes([high, low]))..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_of_headers() {
        let spec = standard_set(4)[3];
        let png = Renderer::new().expect("fonts").render(&spec).to_png().expect("png");
        assert_eq!(pixels(&png), Some(640 * 480));
        assert_eq!(pixels(&png[..20]), None);
        let jpeg =
            b"\xFF\xD8\xFF\xE0\x00\x04ab\xFF\xC2\x00\x0b\x08\x01\x00\x02\x00\x01\x01\x11\x00";
        assert_eq!(pixels(jpeg), Some(256 * 512));
        assert_eq!(pixels(b"\xFF\xD8\xFF\xE0\xFF\xFF"), None);
        assert_eq!(pixels(b"text"), None);
    }

    #[test]
    fn hidden_and_other_files_are_no_images() {
        for (name, image) in [("a.PNG", true), ("b.jpeg", true), (".c.png", false), ("d", false)] {
            assert_eq!(is_image_name(Path::new(name)), image, "{name}");
        }
    }
}
