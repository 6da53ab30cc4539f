//! `rival-iceoryx2 SIZE CORE_A CORE_B`: publish-subscribe between two pinned processes, ping-pong.
//!
//! One hop = loan, write the MsgInfo line and the three descriptor lines in use, send → receive,
//! read the same lines and the payload's first and last line, drop. A round trip is two hops. Both
//! ends busy-wait. Excluded: creating node, service, ports; the first [`WARM_ROUNDS`] round trips
//! of each block. Quality of service as in iceoryx2's own benchmark: one publisher, one subscriber,
//! no history, buffer of one. Its names on disk and in /dev/shm carry this process's id and are
//! removed at the end.

#![allow(unsafe_code, reason = "says that a loaned sample is written")]

use std::hint::{black_box, spin_loop};
use std::ops::Range;
use std::time::Instant;

use iceoryx2::config::Config;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{NodeBuilder, ZeroCopySend, ipc};
use rivals::{Echo, Failure, WARM_ROUNDS, pin, serve, serve_echo};

/// One cache line; a message is a slice of them.
#[derive(Debug, Clone, Copy, ZeroCopySend)]
#[repr(C)]
#[repr(align(64))]
struct Line([u64; 8]);

/// MsgInfo (one line), then RuntimeTensorDesc (16 lines), then the payload.
const PAYLOAD: usize = 1 + 1024 / 64;

/// Lines of the descriptor in use: address, dtype, shape in 0; original shape in 4; format, size in
/// 8.
const DESCRIPTOR: [usize; 3] = [1, 1 + 4, 1 + 8];

type Service = ipc::Service;
type Out = Publisher<Service, [Line], ()>;
type In = Subscriber<Service, [Line], ()>;

/// What its files in /dev/shm start with.
fn prefix(tag: &str) -> String {
    format!("dflow_rival_{tag}_")
}

/// Where its node and service files are.
fn root(tag: &str) -> String {
    format!("/tmp/dflow_rival_{tag}")
}

/// Removes what iceoryx2 leaves behind after a clean exit.
fn clean_up(tag: &str) -> Result<(), Failure> {
    std::fs::remove_dir_all(root(tag))?;
    for entry in std::fs::read_dir("/dev/shm")? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix(tag)) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

struct Ends {
    out: Out,
    input: In,
    lines: usize,
    size: u64,
}

impl Ends {
    /// The two ports of one side; `first` sends on `ping` and receives on `pong`.
    fn open(tag: &str, size: u64, first: bool) -> Result<Self, Failure> {
        let mut config = Config::default();
        config.global.prefix = prefix(tag).as_str().try_into()?;
        config.global.set_root_path(&root(tag).as_str().try_into()?);
        let node = NodeBuilder::new().config(&config).create::<Service>()?;
        let service = |name: &str| -> Result<_, Failure> {
            Ok(node
                .service_builder(&name.try_into()?)
                .publish_subscribe::<[Line]>()
                .max_publishers(1)
                .max_subscribers(1)
                .history_size(0)
                .subscriber_max_buffer_size(1)
                .enable_safe_overflow(true)
                .open_or_create()?)
        };
        let (sends, receives) = if first { ("ping", "pong") } else { ("pong", "ping") };
        // The 8-byte case reads two payload lines too.
        let payload = usize::try_from(size.div_ceil(64))?.max(2);
        let lines = PAYLOAD + payload;
        let out = service(sends)?.publisher_builder().initial_max_slice_len(lines).create()?;
        let input = service(receives)?.subscriber_builder().create()?;
        Ok(Self { out, input, lines, size })
    }

    fn send(&self, trans_id: u64) -> Result<(), Failure> {
        let mut sample = self.out.loan_slice_uninit(self.lines)?;
        let lines = sample.payload_mut();
        lines[0].write(Line([trans_id, 0, 1, 2, 0, u64::MAX, 0, 0]));
        lines[DESCRIPTOR[0]].write(Line([0, 0, 3, 2, 1, self.size, 0, 0]));
        lines[DESCRIPTOR[1]].write(Line([0, 0, 0, 0, 2, 1, self.size, 0]));
        lines[DESCRIPTOR[2]].write(Line([0, 0, 0, 0, 0, 3, 0, self.size]));
        // SAFETY:
        // - what the receiver reads was written above, or is payload of a data segment
        //   that the kernel handed out zero-filled; each bit pattern is a valid `[u64; 8]`.
        let sample = unsafe { sample.assume_init() };
        sample.send()?;
        Ok(())
    }

    fn receive(&self) -> Result<u64, Failure> {
        loop {
            if let Some(sample) = self.input.receive()? {
                let lines = sample.payload();
                let sum = |line: usize, words: Range<usize>| {
                    lines[line].0[words].iter().fold(0u64, |sum, word| sum.wrapping_add(*word))
                };
                // The words that our own side reads.
                black_box((
                    lines[0],
                    sum(DESCRIPTOR[0], 0..6),
                    sum(DESCRIPTOR[1], 4..7),
                    sum(DESCRIPTOR[2], 5..8),
                    sum(PAYLOAD, 0..8),
                    sum(lines.len() - 1, 0..8),
                ));
                return Ok(lines[0].0[0]);
            }
            spin_loop();
        }
    }
}

fn echo(args: &[String]) -> Result<(), Failure> {
    let [tag, size, core] = args else { return Err("echo needs TAG SIZE CORE".into()) };
    pin(core.parse()?)?;
    let ends = Ends::open(tag, size.parse()?, false)?;
    serve_echo(|rounds| {
        for _ in 0..rounds + WARM_ROUNDS {
            ends.send(ends.receive()?)?;
        }
        Ok(())
    })
}

fn round_trips(ends: &Ends, rounds: u64) -> Result<(), Failure> {
    for trans_id in 1..=rounds {
        ends.send(trans_id)?;
        let found = ends.receive()?;
        if found != trans_id {
            return Err(format!("sent message {trans_id} and received {found}").into());
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "echo") {
        return echo(&args[1..]);
    }
    let [size, core_a, core_b] = args.as_slice() else {
        return Err("usage: rival-iceoryx2 SIZE CORE_A CORE_B".into());
    };
    pin(core_a.parse()?)?;
    let tag = std::process::id().to_string();
    let ends = Ends::open(&tag, size.parse()?, true)?;
    let mut other = Echo::start(&[tag.clone(), size.clone(), core_b.clone()])?;
    // A starter that was killed shows as a failed write here; the files go all the same.
    let served = serve(|rounds| {
        other.begin(rounds)?;
        round_trips(&ends, WARM_ROUNDS)?;
        let started = Instant::now();
        round_trips(&ends, rounds)?;
        Ok(started.elapsed().as_nanos() as f64 / (2 * rounds) as f64)
    });
    let finished = other.finish();
    drop(ends);
    clean_up(&tag)?;
    served.and(finished)
}
