//! Codes that these functions put on a page, of the user range 9900000..=9999999 (udf §1.1).

use image_file::FileError;

/// The bytes are no PNG or JPEG file, or a damaged one.
pub const BAD_IMAGE: i32 = 9_900_201;
/// The input is not what this function takes: data type, shape, number of inputs, or user data.
pub const BAD_INPUT: i32 = 9_900_202;
/// More pixels than `max_pixels`.
pub const TOO_LARGE: i32 = 9_900_203;
/// A page was given up because pages after it filled up what `gather` remembers.
pub const INCOMPLETE: i32 = 9_900_204;

/// What a code of this library means, for the log and for tables.
#[must_use]
pub fn text(code: i32) -> &'static str {
    match code {
        BAD_IMAGE => "not a readable PNG or JPEG file",
        BAD_INPUT => "input of the wrong type or shape, or without its user data",
        TOO_LARGE => "more pixels than max_pixels allows",
        INCOMPLETE => "some of the page's lines never came",
        _ => "the runtime refused a call",
    }
}

/// The code of a file that can't be decoded.
pub(crate) fn of(error: FileError) -> i32 {
    match error {
        FileError::Damaged => BAD_IMAGE,
        FileError::TooLarge => TOO_LARGE,
    }
}
