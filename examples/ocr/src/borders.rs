//! Borders of what is set in a mask: of each region the one around it, and those of its holes.
//!
//! Pixels that touch at a corner are one region of what is set, and two of what is not. A border is
//! the pixels that are set and have one of the other kind above, below, left or right. Only its
//! hull counts here, so no border is followed: regions are filled.

use crate::rect::Point;

/// Not set, and not seen yet.
const CLEAR: u8 = 0;
/// Set, and not seen yet.
pub(crate) const SET: u8 = 1;
const CLEAR_SEEN: u8 = 2;
const SET_SEEN: u8 = 3;

/// A mask with a margin of one pixel on all sides.
#[derive(Debug)]
pub(crate) struct Mask {
    pitch: usize,
    pixels: Vec<u8>,
}

impl Mask {
    /// A mask of these sides with nothing set.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Mask { pitch: width + 2, pixels: vec![CLEAR; (width + 2) * (height + 2)] }
    }

    /// Sets a pixel.
    pub(crate) fn set(&mut self, x: usize, y: usize) {
        self.pixels[(y + 1) * self.pitch + x + 1] = SET;
    }

    /// All borders, each with its pixels in no order.
    pub(crate) fn borders(mut self) -> Vec<Vec<Point>> {
        let (mut borders, mut stack) = (Vec::new(), Vec::new());
        // What is outside of everything.
        self.fill_clear(0, &mut stack, &mut Vec::new());
        for at in 0..self.pixels.len() {
            let mut border = Vec::new();
            match self.pixels[at] {
                SET => self.fill_set(at, &mut stack, &mut border),
                CLEAR => self.fill_clear(at, &mut stack, &mut border),
                _ => continue,
            }
            borders.push(border);
        }
        borders
    }

    fn point(&self, at: usize) -> Point {
        let place = [at % self.pitch, at / self.pitch];
        place.map(|place| i32::try_from(place).unwrap_or(i32::MAX) - 1)
    }

    fn beside(&self, at: usize) -> [usize; 4] {
        [at.wrapping_sub(self.pitch), at.wrapping_sub(1), at + 1, at + self.pitch]
    }

    fn is_set(&self, at: usize) -> bool {
        self.pixels[at] == SET || self.pixels[at] == SET_SEEN
    }

    /// A region of what is set; it never reaches the margin.
    fn fill_set(&mut self, start: usize, stack: &mut Vec<usize>, border: &mut Vec<Point>) {
        self.pixels[start] = SET_SEEN;
        stack.push(start);
        while let Some(at) = stack.pop() {
            if self.beside(at).iter().any(|beside| !self.is_set(*beside)) {
                border.push(self.point(at));
            }
            for row in [at - self.pitch, at, at + self.pitch] {
                for next in row - 1..=row + 1 {
                    if self.pixels[next] == SET {
                        self.pixels[next] = SET_SEEN;
                        stack.push(next);
                    }
                }
            }
        }
    }

    /// A region of what is not set: the border is of what is set around it.
    fn fill_clear(&mut self, start: usize, stack: &mut Vec<usize>, border: &mut Vec<Point>) {
        self.pixels[start] = CLEAR_SEEN;
        stack.push(start);
        while let Some(at) = stack.pop() {
            for next in self.beside(at) {
                match self.pixels.get(next) {
                    Some(&CLEAR) => {
                        self.pixels[next] = CLEAR_SEEN;
                        stack.push(next);
                    }
                    Some(&(SET | SET_SEEN)) => border.push(self.point(next)),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn borders(rows: &[&str]) -> Vec<Vec<Point>> {
        let mut mask = Mask::new(rows[0].len(), rows.len());
        for (y, row) in rows.iter().enumerate() {
            row.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'#')
                .for_each(|(x, _)| mask.set(x, y));
        }
        let mut borders = mask.borders();
        for border in &mut borders {
            border.sort_unstable();
            border.dedup();
        }
        borders
    }

    #[test]
    fn regions_and_their_holes_have_borders() {
        let found = borders(&[
            "#####..#", //
            "#...#.#.", "#.#.#...", "#...#..#", "#####...",
        ]);
        // The frame, the two that touch at a corner, the hole with the island, the island, a dot.
        let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [16, 2, 13, 1, 1]);
        assert_eq!(found[1], [[6, 1], [7, 0]]);
        assert!(found[2].contains(&[2, 2]) && !found[2].contains(&[0, 0]));
        assert!(borders(&["..", ".."]).is_empty());
        assert_eq!(
            borders(&["###", "###", "###"]),
            [[[0, 0], [0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1], [2, 2]]]
        );
    }
}
