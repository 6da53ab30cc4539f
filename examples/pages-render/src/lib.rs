//! Text pages by code: fonts, sizes, a known rotation, noise; encoded as PNG.
//!
//! The same [`PageSpec`] gives the same bytes. A page is laid out level, turned about its middle,
//! shaded and sprinkled with noise as a scanner would. Nothing here is shared with the functions
//! that undo it.
//!
//! Fonts are those of Debian's `fonts-dejavu-core`, found in `/usr/share/fonts/truetype/dejavu` or
//! in the folder that the environment variable `PAGES_FONTS` names.

mod layout;
mod paint;
mod text;

use ab_glyph::FontVec;
use std::path::{Path, PathBuf};

/// A4 at 200 dpi: width and height in pixels.
pub const A4_200_DPI: (u32, u32) = (1654, 2339);

/// Folder of Debian's fonts-dejavu-core.
const FONT_FOLDER: &str = "/usr/share/fonts/truetype/dejavu";

/// Which font a page is set in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Face {
    /// DejaVu Sans.
    Sans,
    /// DejaVu Serif.
    Serif,
    /// DejaVu Sans Mono.
    Mono,
}

impl Face {
    /// Every face.
    pub const ALL: [Face; 3] = [Face::Sans, Face::Serif, Face::Mono];

    /// Short lower-case name, for file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Face::Sans => "sans",
            Face::Serif => "serif",
            Face::Mono => "mono",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Face::Sans => "DejaVuSans.ttf",
            Face::Serif => "DejaVuSerif.ttf",
            Face::Mono => "DejaVuSansMono.ttf",
        }
    }
}

/// What a page looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageSpec {
    /// Font.
    pub face: Face,
    /// Pixels a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Height of the font in pixels.
    pub text_px: f32,
    /// Rotation, clockwise positive.
    pub skew_degrees: f64,
    /// Largest deviation of a pixel by noise, 0 for none.
    pub noise: u8,
    /// Choice of text and noise.
    pub seed: u64,
}

impl PageSpec {
    /// A name that says what is on the page, such as `serif-1654x2339-36px-2.50deg.png`.
    #[must_use]
    pub fn file_name(&self) -> String {
        let PageSpec { width, height, text_px, skew_degrees, .. } = self;
        format!("{}-{width}x{height}-{text_px}px{skew_degrees:+.2}deg.png", self.face.name())
    }
}

/// Why a page could not be rendered.
#[derive(Debug)]
#[non_exhaustive]
pub enum RenderError {
    /// A font file is missing or no font.
    Font {
        /// The file.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
    /// The PNG encoder refused the page.
    Encode(String),
}

impl std::fmt::Display for RenderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RenderError::Font { path, reason } => write!(
                f,
                "font {}: {reason}; install fonts-dejavu-core or set PAGES_FONTS",
                path.display()
            ),
            RenderError::Encode(reason) => write!(f, "PNG encoder: {reason}"),
        }
    }
}

impl std::error::Error for RenderError {}

/// A rendered page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPage {
    /// Pixels a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Grey pixels, 0 black.
    pub pixels: Vec<u8>,
    /// Text lines on it.
    pub lines: usize,
}

impl RenderedPage {
    /// The page as a PNG file.
    ///
    /// # Errors
    /// [`RenderError::Encode`].
    pub fn to_png(&self) -> Result<Vec<u8>, RenderError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&self.pixels))
            .map_err(|error| RenderError::Encode(error.to_string()))?;
        Ok(file)
    }
}

/// Loaded fonts.
#[derive(Debug)]
pub struct Renderer {
    fonts: [FontVec; 3],
}

impl Renderer {
    /// Loads the fonts from `PAGES_FONTS` or Debian's folder.
    ///
    /// # Errors
    /// [`RenderError::Font`] with the file and what to do.
    pub fn new() -> Result<Self, RenderError> {
        let folder = std::env::var_os("PAGES_FONTS");
        Self::from_folder(folder.as_deref().map_or(Path::new(FONT_FOLDER), Path::new))
    }

    /// Loads the fonts from a folder.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_folder(folder: &Path) -> Result<Self, RenderError> {
        let load = |face: Face| {
            let path = folder.join(face.file());
            let bytes = std::fs::read(&path).map_err(|error| error.to_string());
            let font = bytes
                .and_then(|bytes| FontVec::try_from_vec(bytes).map_err(|error| error.to_string()));
            font.map_err(|reason| RenderError::Font { path, reason })
        };
        Ok(Renderer { fonts: [load(Face::Sans)?, load(Face::Serif)?, load(Face::Mono)?] })
    }

    /// Renders a page.
    #[must_use]
    pub fn render(&self, spec: &PageSpec) -> RenderedPage {
        let font = &self.fonts[spec.face as usize];
        let (level, lines) = layout::set_text(font, spec);
        let mut pixels = paint::turn(&level, spec);
        paint::scan(&mut pixels, spec);
        RenderedPage { width: spec.width, height: spec.height, pixels, lines }
    }
}

/// `count` pages that cycle through fonts, sizes, rotations and noise; every fourth is A4 at 200
/// dpi.
#[must_use]
pub fn standard_set(count: usize) -> Vec<PageSpec> {
    const SIZES: [(u32, u32); 4] = [A4_200_DPI, (827, 1170), (1240, 1754), (640, 480)];
    const TEXT: [f32; 3] = [20.0, 28.0, 36.0];
    const SKEWS: [f64; 7] = [0.0, 2.5, -1.75, 5.0, -4.25, 0.6, -7.5];
    let specs = (0_u8..=255).cycle().take(count).enumerate().map(|(index, noise)| {
        let (width, height) = SIZES[index % SIZES.len()];
        PageSpec {
            face: Face::ALL[index % Face::ALL.len()],
            width,
            height,
            text_px: TEXT[index % TEXT.len()] * if width > 1000 { 1.0 } else { 0.75 },
            skew_degrees: SKEWS[index % SKEWS.len()],
            noise: noise % 4 * 6,
            seed: index as u64,
        }
    });
    specs.collect()
}
