//! The set of pages: scanned ones and rendered ones, or the user's own.

use pages_render::{Face, PageSpec, Renderer};
use std::path::{Path, PathBuf};

/// Pages with text among the test images; `text.png` is slanted, on noise: nothing is found on it.
const SCANNED: [&str; 2] = ["page.png", "text.png"];

/// One page to feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Name of the file.
    pub name: String,
    /// The whole file.
    pub file: Vec<u8>,
}

/// The scanned pages of the folder of test images, then `rendered` pages.
///
/// # Errors
/// A file that can't be read, or a missing font.
pub fn standard(folder: &Path, rendered: usize) -> Result<Vec<Page>, String> {
    let scanned = SCANNED.iter().map(|name| read(&folder.join(name)));
    let mut pages = scanned.collect::<Result<Vec<_>, _>>()?;
    let renderer = Renderer::new().map_err(|error| error.to_string())?;
    for spec in specs(rendered) {
        let file = renderer.render(&spec).to_png().map_err(|error| error.to_string())?;
        pages.push(Page { name: spec.file_name(), file });
    }
    Ok(pages)
}

/// PNG and JPEG files, and those of folders by name.
///
/// # Errors
/// A file or folder that can't be read.
pub fn own(paths: &[PathBuf]) -> Result<Vec<Page>, String> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(images(path)?);
        } else {
            files.push(path.clone());
        }
    }
    files.iter().map(|path| read(path)).collect()
}

fn images(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ["png", "jpg", "jpeg"].iter().any(|known| ending.eq_ignore_ascii_case(known)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Page, String> {
    let file = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(Page { name, file })
}

/// Pages in every font, of several sizes, level, askew and upside down, whose lines are at most 21
/// times as wide as high: the recogniser's input has that shape.
fn specs(count: usize) -> impl Iterator<Item = PageSpec> {
    const SIZES: [(u32, u32); 4] = [(640, 480), (520, 736), (736, 560), (480, 480)];
    const TEXT: [f32; 4] = [24.0, 22.0, 28.0, 20.0];
    const SKEWS: [f64; 7] = [0.0, 1.5, -2.0, 180.0, 3.0, 0.0, -1.0];
    (0..count).zip(0_u64..).map(|(index, seed)| {
        let (width, height) = SIZES[index % SIZES.len()];
        PageSpec {
            face: Face::ALL[index % Face::ALL.len()],
            width,
            height,
            text_px: TEXT[index % TEXT.len()],
            skew_degrees: SKEWS[index % SKEWS.len()],
            noise: if index % 3 == 1 { 6 } else { 0 },
            seed,
        }
    })
}
