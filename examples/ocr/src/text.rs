//! `text`: the recogniser's probabilities → characters and how sure it is: the best class of each
//! column, repetitions once, without the blank.
//!
//! ```text
//! off size meaning
//!   0    4 mean probability of the characters, f32, little-endian; 0 without any
//!   4      the characters, UTF-8
//! ```

use crate::characters::Characters;
use crate::codes::BAD_INPUT;
use flow_func::{Context, FlowFunc, InitContext, Msg, Result, flow_error, flow_warn};

/// Characters and buffers; also the function `text`.
#[derive(Debug, Default)]
pub struct Text {
    characters: Characters,
    line: String,
}

impl FlowFunc for Text {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let path: &str = ctx.attr("model")?;
        self.characters = Characters::read(path.as_ref()).map_err(|reason| {
            flow_error!(ctx, "characters of {path}: {reason}");
            BAD_INPUT
        })?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if input.ret_code() != 0 || input.is_empty() {
            return ctx.set_output(0, input);
        }
        let classes = self.characters.classes();
        let fits = *input.shape() == [1, input.shape().get(1).copied().unwrap_or(0), classes];
        let Some(values) = input.data::<f32>().ok().filter(|_| fits) else {
            flow_warn!(ctx, "found {:?}, expected f32 [1, T, {classes}]", input.shape());
            return ctx.set_code(0, BAD_INPUT);
        };
        let confidence = self.characters.decode(values, &mut self.line);
        let mut out = ctx.alloc::<u8>(&[crate::to_i64(4 + self.line.len())])?;
        let (head, text) = out.as_mut_slice::<u8>()?.split_at_mut(4);
        head.copy_from_slice(&confidence.to_le_bytes());
        text.copy_from_slice(self.line.as_bytes());
        ctx.set_output(0, &out)
    }
}

/// Confidence and characters out of a message of `text`.
///
/// # Errors
/// [`BAD_INPUT`].
pub fn read(bytes: &[u8]) -> Result<(f32, &str)> {
    let (head, text) = bytes.split_first_chunk::<4>().ok_or(BAD_INPUT)?;
    let text = std::str::from_utf8(text).map_err(|_| BAD_INPUT)?;
    Ok((f32::from_le_bytes(*head), text))
}
