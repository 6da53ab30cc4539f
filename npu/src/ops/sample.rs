//! Where Resize takes its samples: for each index of the output the indices of the input, and their
//! weights.

use crate::ops::{Node, OpError};
use crate::params::{ParamReader, ParamWriter};

/// Most indices along a dim.
pub(super) const PLACES_MAX: usize = 1 << 20;

/// How samples are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling {
    mode: Mode,
    coordinates: Coordinates,
    nearest: Nearest,
    /// Elements outside have no weight; those inside share it.
    exclude_outside: bool,
    /// Samples of a smaller output are means of several elements.
    antialias: bool,
    cubic: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

/// One of some texts; the first one when it is left out.
fn choice<T: Copy>(node: &Node<'_>, name: &str, choices: &[(&str, T)]) -> Result<T, OpError> {
    let given = node.text(name)?.unwrap_or(choices[0].0);
    let found = choices.iter().find(|(text, _)| *text == given);
    found.map(|(_, own)| *own).ok_or_else(|| {
        let all: Vec<&str> = choices.iter().map(|(text, _)| *text).collect();
        OpError::attribute(name, given, all.join(", "))
    })
}

impl Sampling {
    pub(super) fn import(node: &Node<'_>) -> Result<Self, OpError> {
        let mode = choice(
            node,
            "mode",
            &[
                ("nearest", Mode::Nearest),
                ("linear", Mode::Linear),
                // The name in Upsample of opset 7.
                ("bilinear", Mode::Linear),
                ("cubic", Mode::Cubic),
            ],
        )?;
        if node.opset < 11 {
            let (coordinates, nearest) = (Coordinates::Asymmetric, Nearest::Floor);
            let (exclude_outside, antialias) = (false, false);
            return Ok(Self {
                mode,
                coordinates,
                nearest,
                exclude_outside,
                antialias,
                cubic: -0.75,
            });
        }
        let coordinates = choice(
            node,
            "coordinate_transformation_mode",
            &[
                ("half_pixel", Coordinates::HalfPixel),
                ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
                ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
                ("align_corners", Coordinates::AlignCorners),
                ("asymmetric", Coordinates::Asymmetric),
                ("tf_crop_and_resize", Coordinates::CropAndResize),
            ],
        )?;
        let nearest = choice(
            node,
            "nearest_mode",
            &[
                ("round_prefer_floor", Nearest::RoundPreferFloor),
                ("round_prefer_ceil", Nearest::RoundPreferCeil),
                ("floor", Nearest::Floor),
                ("ceil", Nearest::Ceil),
            ],
        )?;
        Ok(Self {
            mode,
            coordinates,
            nearest,
            exclude_outside: node.flag("exclude_outside", false)?,
            antialias: node.flag("antialias", false)?,
            cubic: f64::from(node.float("cubic_coeff_a", -0.75)?),
        })
    }

    /// Whether a part of the input is sampled, which `roi` tells.
    pub(super) fn crops(&self) -> bool {
        self.coordinates == Coordinates::CropAndResize
    }

    /// Taps of one dim.
    pub(super) fn taps(
        &self,
        length: usize,
        size: usize,
        scale: f64,
        part: Option<(f64, f64)>,
    ) -> Taps {
        let mut taps = Taps { begins: vec![0], places: Vec::new() };
        for index in 0..size {
            let x = self.coordinate(from_size(index), length, size, scale, part);
            let end = from_size(length) - 1.0;
            // Outside of what is cropped nothing is taken: the node says what stands there.
            if !self.crops() || (0.0..=end).contains(&x) {
                taps.places.extend(self.weights(x, length, scale));
            }
            taps.begins.push(taps.places.len());
        }
        taps
    }

    fn coordinate(
        &self,
        index: f64,
        length: usize,
        size: usize,
        scale: f64,
        part: Option<(f64, f64)>,
    ) -> f64 {
        // Before it was cut to a whole number.
        let (own, resized) = (from_size(length), from_size(length) * scale);
        match self.coordinates {
            Coordinates::HalfPixel => (index + 0.5) / scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                // The exact size may have a fraction, which is missing on both sides alike.
                let adjustment = from_size(size) / resized;
                let center = own / 2.0;
                center * (1.0 - adjustment) + (index + 0.5) / scale - 0.5
            }
            Coordinates::PytorchHalfPixel if size == 1 => 0.0,
            Coordinates::PytorchHalfPixel => (index + 0.5) / scale - 0.5,
            Coordinates::AlignCorners if size == 1 => 0.0,
            Coordinates::AlignCorners => index * (own - 1.0) / (resized - 1.0),
            Coordinates::Asymmetric => index / scale,
            Coordinates::CropAndResize => {
                let (begin, end) = part.unwrap_or((0.0, 1.0));
                if size == 1 {
                    0.5 * (begin + end) * (own - 1.0)
                } else {
                    let steps = from_size(size) - 1.0;
                    begin * (own - 1.0) + index * (end - begin) * (own - 1.0) / steps
                }
            }
        }
    }

    /// Indices and weights for a place.
    fn weights(&self, x: f64, length: usize, scale: f64) -> Vec<(usize, f64)> {
        if self.mode == Mode::Nearest {
            let rounded = match self.nearest {
                Nearest::Floor => x.floor(),
                Nearest::Ceil => x.ceil(),
                Nearest::RoundPreferFloor => (x - 0.5).ceil(),
                Nearest::RoundPreferCeil => (x + 0.5).floor(),
            };
            return vec![(to_size(rounded).min(length - 1), 1.0)];
        }
        let stretch = if self.antialias { scale.min(1.0) } else { 1.0 };
        let reach = if self.mode == Mode::Linear { 1.0 } else { 2.0 } / stretch;
        let (first, last) = ((x - reach).floor() + 1.0, (x + reach).ceil() - 1.0);
        let mut own: Vec<(f64, f64)> = Vec::new();
        let mut at = first;
        while at <= last.max(first) {
            let weight = self.kernel((x - at) * stretch);
            let inside = (0.0..from_size(length)).contains(&at);
            if weight != 0.0 && (inside || !self.exclude_outside) {
                own.push((at, weight));
            }
            at += 1.0;
        }
        let sum: f64 = own.iter().map(|(_, weight)| weight).sum();
        let all = if self.exclude_outside || self.antialias { sum } else { 1.0 };
        let mut taps: Vec<(usize, f64)> = Vec::new();
        for (at, weight) in own {
            let place = to_size(at).min(length - 1);
            match taps.last_mut() {
                Some((last, sum)) if *last == place => *sum += weight / all,
                _ => taps.push((place, weight / all)),
            }
        }
        taps
    }

    /// The weight at a distance.
    fn kernel(&self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), self.cubic);
        match self.mode {
            Mode::Nearest => 1.0,
            Mode::Linear => (1.0 - x).max(0.0),
            Mode::Cubic if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Mode::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Mode::Cubic => 0.0,
        }
    }
}

/// For each index of an output the indices of the input and their weights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taps {
    /// Where those of each index begin, and where the last ones end.
    begins: Vec<usize>,
    places: Vec<(usize, f64)>,
}

impl Taps {
    /// Those of an index; none outside.
    #[inline]
    pub(super) fn of(&self, index: usize) -> Option<&[(usize, f64)]> {
        let own = self.places.get(self.begins[index]..self.begins[index + 1])?;
        (!own.is_empty()).then_some(own)
    }

    /// The most that an index has.
    pub(super) fn most(&self) -> usize {
        self.begins.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    pub(super) fn encode(&self, into: &mut ParamWriter) {
        for index in 1..self.begins.len() {
            let own = &self.places[self.begins[index - 1]..self.begins[index]];
            into.size(own.len());
            for (place, weight) in own {
                into.size(*place);
                into.i64(weight.to_bits().cast_signed());
            }
        }
    }

    pub(super) fn decode(
        from: &mut ParamReader<'_>,
        length: usize,
        size: usize,
    ) -> Result<Self, OpError> {
        let mut taps = Self { begins: vec![0], places: Vec::new() };
        for _ in 0..size {
            for _ in 0..from.size()? {
                let (place, weight) = (from.size()?, from.i64()?);
                if place >= length {
                    return Err(OpError::params(format!("element {place} of {length}")));
                }
                taps.places.push((place, f64::from_bits(weight.cast_unsigned())));
            }
            taps.begins.push(taps.places.len());
        }
        Ok(taps)
    }
}

/// A size as a float.
#[expect(clippy::cast_precision_loss, reason = "sizes of images")]
pub(super) fn from_size(size: usize) -> f64 {
    size as f64
}

/// A float without a fraction as a size; 0 below it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "to the nearest end")]
pub(super) fn to_size(value: f64) -> usize {
    value as usize
}
