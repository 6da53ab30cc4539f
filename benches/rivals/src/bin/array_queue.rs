//! `rival-array-queue [CORE]`: one thread pushes a handle into a `crossbeam_queue::ArrayQueue` and
//! pops it.
//!
//! Measured: one push and one pop per round, reported together as one hop. The handle is the
//! address of a 64-byte aligned box, of the size of a pointer, made before the clock starts.
//! Excluded: making the box.

#![deny(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use rivals::{Failure, pin, serve};

/// Slots of the queue, like depth64 of the criterion group.
const DEPTH: usize = 64;

#[repr(align(64))]
struct Message([u8; 64]);

fn main() -> Result<(), Failure> {
    if let Some(core) = std::env::args().nth(1) {
        pin(core.parse()?)?;
    }
    let queue: ArrayQueue<Box<Message>> = ArrayQueue::new(DEPTH);
    let mut message = Some(Box::new(Message([7; 64])));
    serve(|rounds| {
        let started = Instant::now();
        for _ in 0..rounds {
            let pushed = message.take().ok_or("the handle was lost")?;
            if black_box(&queue).push(pushed).is_err() {
                return Err("the queue of one message is full".into());
            }
            message = black_box(&queue).pop();
        }
        let elapsed = started.elapsed();
        black_box(message.as_ref().map(|m| m.0[0]));
        Ok(elapsed.as_nanos() as f64 / rounds as f64)
    })
}
