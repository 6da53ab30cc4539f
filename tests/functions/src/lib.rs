//! User functions of the fault and integration tests. Messages are `uint64 [n]` tensors whose
//! elements all follow from the transaction id, so that a mixed-up or torn message is seen at once.
//!
//! | function | does |
//! |---|---|
//! | `pass` | copies its input to a new message; code [`TORN`] unless it is `trans_id + index` |
//! | `forward` | sets its input as its output: zero copy |
//! | `join` | two inputs of one id: code [`MIXED`] when their ids or elements differ, else a copy |
//! | `mother` | as `pass`; its Init starts a grandchild that leaves the process group and sleeps |
//! | `scribble` | as `pass`, and writes random words into everything it can write, see `scribble` |
//! | `poke` | as `forward`; at one id it writes one word of the shared section, see `scribble` |
//! | `busy` | as `forward` after spinning for `us` microseconds |
//! | `act` | as `forward`, except for one id: see `act` |
//! | `sum` | keeps what comes and sends every `every`-th time the sum of the first elements |
//! | `send` | sends what its input, bytes, describes: see `send` |
//! | `user` | sends the first 8 bytes of the user data as its one element |
//! | `scatter`, `gather` | one message becomes many, and many become one: see `many` |

mod act;
mod many;
mod scribble;
mod send;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flow_func::{Context, FlowFunc, InitContext, Msg, Result, codes, export_flow_funcs};

/// An element is not what its id says.
pub const TORN: i32 = 9_900_101;
/// Inputs of one set do not belong together.
pub const MIXED: i32 = 9_900_102;

#[derive(Default)]
struct Pass;

#[derive(Default)]
struct Forward;

#[derive(Default)]
struct Join;

#[derive(Default)]
struct Mother;

#[derive(Default)]
struct Busy {
    micros: u64,
}

#[derive(Default)]
struct Sum {
    every: i64,
    count: i64,
    sum: u64,
}

#[derive(Default)]
struct User;

export_flow_funcs! {
    "pass" => Pass,
    "forward" => Forward,
    "join" => Join,
    "mother" => Mother,
    "scribble" => scribble::Scribble,
    "poke" => scribble::Poke,
    "busy" => Busy,
    "act" => act::Act,
    "send" => send::Send,
    "sum" => Sum,
    "user" => User,
    "scatter" => many::Scatter,
    "gather" => many::Gather,
}

fn first<'m, 'c>(inputs: &'m [Msg<'c>]) -> Result<&'m Msg<'c>> {
    inputs.first().ok_or(codes::PARAM_INVALID)
}

fn is_whole(input: &Msg<'_>) -> bool {
    let id = input.trans_id();
    input.data::<u64>().is_ok_and(|data| {
        (0u64..).zip(data).all(|(index, element)| *element == id.wrapping_add(index))
    })
}

fn pass(ctx: &mut Context<'_>, input: &Msg<'_>) -> Result {
    if input.ret_code() != 0 || input.is_empty() {
        return ctx.set_output(0, input);
    }
    if !is_whole(input) {
        return ctx.set_code(0, TORN);
    }
    let mut out = ctx.alloc::<u64>(input.shape())?;
    out.as_mut_slice::<u64>()?.copy_from_slice(input.data::<u64>()?);
    ctx.set_output(0, &out)
}

impl FlowFunc for Pass {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        pass(ctx, first(inputs)?)
    }
}

impl FlowFunc for Forward {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        ctx.set_output(0, first(inputs)?)
    }
}

impl FlowFunc for Join {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [left, right] = inputs else { return Err(codes::PARAM_INVALID) };
        if let Some(failed) = inputs.iter().find(|input| input.ret_code() != 0) {
            return ctx.set_code(0, failed.ret_code());
        }
        if left.trans_id() != right.trans_id() || left.data::<u64>() != right.data::<u64>() {
            return ctx.set_code(0, MIXED);
        }
        pass(ctx, left)
    }
}

impl FlowFunc for Mother {
    fn init(&mut self, _: &InitContext<'_>) -> Result {
        // `setsid` leaves the process group; the shell ends at once, so the sleeper is a
        // grandchild.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "setsid sleep 3600 & exit 0"]).stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.map_err(|_| codes::FAILED).map(|_| ())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        pass(ctx, first(inputs)?)
    }
}

impl FlowFunc for Busy {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let micros: i64 = ctx.attr_or("us", 1000)?;
        self.micros = u64::try_from(micros).map_err(|_| codes::PARAM_INVALID)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let end = Instant::now() + Duration::from_micros(self.micros);
        while Instant::now() < end {
            core::hint::spin_loop();
        }
        ctx.set_output(0, first(inputs)?)
    }
}

impl FlowFunc for Sum {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.every = ctx.attr_or("every", 2)?;
        if self.every > 0 { Ok(()) } else { Err(codes::PARAM_INVALID) }
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let element = first(inputs)?.data::<u64>()?.first().copied().unwrap_or(0);
        self.sum = self.sum.wrapping_add(element);
        self.count += 1;
        if self.count % self.every != 0 {
            return Ok(());
        }
        let mut out = ctx.alloc::<u64>(&[1])?;
        out.as_mut_slice::<u64>()?.fill(self.sum);
        ctx.set_output(0, &out)
    }
}

impl FlowFunc for User {
    fn proc(&mut self, ctx: &mut Context<'_>, _: &[Msg<'_>]) -> Result {
        let mut bytes = [0; 8];
        ctx.user_data(&mut bytes, 0)?;
        let mut out = ctx.alloc::<u64>(&[1])?;
        out.as_mut_slice::<u64>()?.fill(u64::from_le_bytes(bytes));
        ctx.set_output(0, &out)
    }
}
