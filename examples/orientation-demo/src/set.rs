//! The set of pages: image files of a directory and rendered pages, each in four rotations.

use crate::turn::turned;
use pages_render::{Renderer, standard_set};
use std::path::{Path, PathBuf};

/// One page to feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Name of the file before it was turned.
    pub name: String,
    /// Degrees it was turned by, clockwise: 0, 90, 180 or 270.
    pub degrees: u16,
    /// The whole file. Not turned, it is the file as it was found; turned, it is a PNG.
    pub file: Vec<u8>,
}

/// Collects the PNG and JPEG files of `directory`, by name, then renders `rendered` pages; four
/// pages come of each.
///
/// An image that can't be read or decoded is a line on stderr.
///
/// # Errors
/// A directory that can't be read, or a missing font.
pub fn collect(directory: Option<&Path>, rendered: usize) -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    for path in directory.map(image_files).transpose()?.unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = std::fs::read(&path).map_err(|error| error.to_string());
        if let Err(error) = read.and_then(|file| add(&mut pages, &name, file)) {
            eprintln!("{}: {error}; the others go on", path.display());
        }
    }
    if rendered > 0 {
        let renderer = Renderer::new().map_err(|error| error.to_string())?;
        for spec in standard_set(rendered) {
            let file = renderer.render(&spec).to_png().map_err(|error| error.to_string())?;
            add(&mut pages, &spec.file_name(), file)?;
        }
    }
    Ok(pages)
}

/// Writes every page as a file of its own into a folder that is made for them, named by page and
/// degrees.
///
/// # Errors
/// The folder is there already, or can't be written.
pub fn write(pages: &[Page], folder: &Path) -> Result<(), String> {
    let wrong = |path: &Path, error| format!("{}: {error}", path.display());
    std::fs::create_dir(folder).map_err(|error| wrong(folder, error))?;
    pages.iter().try_for_each(|page| {
        let path = folder.join(format!("{}@{}", page.name, page.degrees));
        std::fs::write(&path, &page.file).map_err(|error| wrong(&path, error))
    })
}

fn add(pages: &mut Vec<Page>, name: &str, file: Vec<u8>) -> Result<(), String> {
    let turns = (1..4).map(|quarters| turned(&file, quarters)).collect::<Result<Vec<_>, _>>()?;
    for (degrees, file) in (0..).step_by(90).zip([file].into_iter().chain(turns)) {
        pages.push(Page { name: name.to_owned(), degrees, file });
    }
    Ok(())
}

fn image_files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if ["png", "jpg", "jpeg"].iter().any(|known| ending.eq_ignore_ascii_case(known)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
