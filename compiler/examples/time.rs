//! Compiles a model and times runs: `cargo run --release -p compiler --example time -- MODEL N`.
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let bytes = std::fs::read(&args[1]).unwrap();
    let shapes = args[2..]
        .iter()
        .map(|a| {
            let (n, d) = a.split_once('=').unwrap();
            (n.to_owned(), d.split(',').map(|x| x.parse().unwrap()).collect())
        })
        .collect();
    let start = Instant::now();
    let compiled = compiler::compile(bytes.into(), &compiler::Options { input_shapes: shapes })
        .unwrap_or_else(|e| panic!("{e}"));
    println!(
        "compile {:?} file {} arena {} weights {} MFLOP {}",
        start.elapsed(),
        compiled.report.file_bytes,
        compiled.report.arena_bytes,
        compiled.report.weights_bytes,
        compiled.report.flops / 1_000_000
    );
    println!("warnings {:?}", compiled.warnings);
    for t in &compiled.report.tasks {
        println!(
            "{:24} {:26} {} -> {} {} kFLOP",
            t.op,
            t.name,
            t.inputs[0].info,
            t.output.info,
            t.flops / 1000
        );
    }
    let start = Instant::now();
    let model = Model::load(compiled.om.clone()).unwrap();
    println!("load {:?}", start.elapsed());
    let infos: Vec<_> = model.inputs().copied().collect();
    let data: Vec<_> = infos
        .iter()
        .enumerate()
        .map(|(i, info)| {
            let mut d = AlignedBytes::zeroed(info.bytes());
            if let Ok(f) = std::fs::read(format!("/tmp/in{i}.bin")) {
                if f.len() == d.len() {
                    d.copy_from_slice(&f);
                }
            }
            d
        })
        .collect();
    let inputs: Vec<_> =
        infos.iter().zip(&data).map(|(info, d)| Input { info: *info, bytes: d }).collect();
    let mut out: Vec<_> = model.outputs().map(|o| AlignedBytes::zeroed(o.bytes())).collect();
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    let mut times = Vec::new();
    for _ in 0..300 {
        let mut outs: Vec<&mut [u8]> = out.iter_mut().map(|o| &mut o[..]).collect();
        let start = Instant::now();
        model.run(&inputs, &mut outs, &mut arena).unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!("median {:?} min {:?}", times[150], times[0]);
    for (i, o) in out.iter().enumerate() {
        std::fs::write(format!("/tmp/out{i}.bin"), &o[..]).unwrap();
        println!(
            "{:?}",
            o.chunks_exact(4)
                .take(12)
                .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
                .collect::<Vec<_>>()
        );
    }
}
