//! Codes that `prepare` puts on a page, of the user range 9900000..=9999999 (udf §1.1).

/// The bytes are no PNG or JPEG file, or a damaged one.
pub const BAD_IMAGE: i32 = 9_900_101;
/// The input is not what this function takes: data type or number of inputs.
pub const BAD_INPUT: i32 = 9_900_102;
/// More pixels than `max_pixels`.
pub const TOO_LARGE: i32 = 9_900_103;

/// What a code of this library means, for the log and for tables.
#[must_use]
pub fn text(code: i32) -> &'static str {
    match code {
        BAD_IMAGE => "not a readable PNG or JPEG file",
        BAD_INPUT => "input of the wrong type, or not one",
        TOO_LARGE => "more pixels than max_pixels allows",
        _ => "the runtime refused a call",
    }
}
