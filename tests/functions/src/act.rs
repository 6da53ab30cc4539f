//! A function that does one thing to one id and forwards all others.
//!
//! Attributes: `at` (the id, 0 = every one), `code` (a number) and `what`:
//!
//! | `what` | does |
//! |---|---|
//! | `panic` | panics |
//! | `set-code` | ends the id with `code` and goes on |
//! | `fail` | returns `code`: the process ends |
//! | `abort`, `segv` | dies of the signal |
//! | `write` | writes into its input |
//! | `nothing` | sets no output |
//! | `wait` | does not return in the node's first life |
//! | `init` | its Init returns `code` |
#![allow(unsafe_code, reason = "writes to wild addresses, which is what is tested")]

use flow_func::{Context, FlowFunc, InitContext, Msg, Result, codes};

/// See the module.
#[derive(Default)]
pub(crate) struct Act {
    at: u64,
    code: i32,
    what: String,
    first_life: bool,
}

impl Act {
    fn act(&self, ctx: &mut Context<'_>, input: &Msg<'_>) -> Result {
        match self.what.as_str() {
            "panic" => panic!("asked to panic at id {}", input.trans_id()),
            "set-code" => return ctx.set_code(0, self.code),
            "fail" => return Err(self.code),
            "abort" => std::process::abort(),
            "segv" => {
                let nowhere = core::ptr::without_provenance_mut::<u8>(8);
                // SAFETY: none: the process dies here, as the test wants.
                unsafe { nowhere.write_volatile(1) };
            }
            "write" => {
                let first = input.bytes().as_ptr().cast_mut();
                // SAFETY: none for a foreign block: the process dies here, as the test wants. Of a
                // copied input this function is the only reader.
                unsafe { first.write_volatile(7) };
            }
            "nothing" => return Ok(()),
            "wait" => {
                if self.first_life {
                    loop {
                        std::thread::park();
                    }
                }
            }
            _ => return Err(codes::PARAM_INVALID),
        }
        ctx.set_output(0, input)
    }
}

impl FlowFunc for Act {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.at = ctx.attr_or::<i64>("at", 0)?.cast_unsigned();
        self.code = i32::try_from(ctx.attr_or::<i64>("code", 9_900_200)?)
            .map_err(|_| codes::PARAM_INVALID)?;
        ctx.attr::<&str>("what")?.clone_into(&mut self.what);
        self.first_life = std::env::var("DFLOW_GENERATION").is_ok_and(|life| life == "1");
        if self.what == "init" { Err(self.code) } else { Ok(()) }
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let input = crate::first(inputs)?;
        if self.at == 0 || input.trans_id() == self.at {
            self.act(ctx, input)
        } else {
            ctx.set_output(0, input)
        }
    }
}
