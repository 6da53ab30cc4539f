//! How long the tasks of a model take: some runs in this process, on one thread, on noise.

use std::time::{Duration, Instant};

use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::half::{Bf16, F16};
use npu::tensor::TensorInfo;

use super::Program;

/// Runs before those that count.
const WARM: usize = 2;
/// Fewest and most runs that count.
const RUNS: (usize, usize) = (5, 201);
/// No run begins later, but for the fewest.
const LIMIT: Duration = Duration::from_secs(2);

/// Times of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Runs that were measured.
    pub runs: usize,
    /// Bytes of weights that were packed at load, for want of a section for this machine.
    pub packed_bytes: u64,
    /// Median of the time a run, nanoseconds.
    pub run_ns: u64,
    /// Median of the time of each task, nanoseconds.
    pub tasks_ns: Vec<u64>,
}

/// Runs a model on noise; why it can't be, in words.
///
/// # Errors
/// The system does not give the memory, or a kernel refuses its own.
pub fn profile(program: &Program) -> Result<Profile, String> {
    let model = Model::load(program.bytes()).map_err(|error| error.to_string())?;
    let values = model.inputs().map(|info| Ok((*info, noise(info)?)));
    let values = values.collect::<Result<Vec<_>, String>>()?;
    let inputs: Vec<Input<'_>> =
        values.iter().map(|(info, bytes)| Input { info: *info, bytes }).collect();
    let outputs = model.outputs().map(|info| memory("an output", info.bytes()));
    let mut outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut arena = memory("working memory", model.arena_bytes())?;
    let tasks = model.program().tasks().len();
    let mut run = |times: &mut [u64]| -> Result<u64, String> {
        let start = Instant::now();
        let mut last = start;
        let ran = model.run_with(&inputs, &mut outputs, &mut arena, None, |task| {
            let now = Instant::now();
            times[task] = nanoseconds(now - last);
            last = now;
        });
        ran.map_err(|error| error.to_string())?;
        Ok(nanoseconds(last - start))
    };
    let (mut each, mut whole) = (vec![Vec::new(); tasks], Vec::new());
    let mut times = vec![0; tasks];
    let start = Instant::now();
    for index in 0..WARM + RUNS.1 {
        if index >= WARM + RUNS.0 && start.elapsed() > LIMIT {
            break;
        }
        let ns = run(&mut times)?;
        if index >= WARM {
            whole.push(ns);
            each.iter_mut().zip(&times).for_each(|(all, ns)| all.push(*ns));
        }
    }
    let tasks_ns = each.iter_mut().map(|all| median(all)).collect();
    let packed_bytes = model.program().packed_bytes() as u64;
    Ok(Profile { runs: whole.len(), packed_bytes, run_ns: median(&mut whole), tasks_ns })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn memory(what: &str, bytes: usize) -> Result<AlignedBytes, String> {
    let refused = |_| format!("{bytes} bytes of {what}: the system does not give so much");
    AlignedBytes::try_zeroed(bytes).map_err(refused)
}

/// Floats from -0.5 to 0.5, the same each time; of other types zeros and ones, which are indices
/// of nearly everything.
fn noise(info: &TensorInfo) -> Result<AlignedBytes, String> {
    let mut bytes = memory("an input", info.bytes())?;
    let size = info.bytes() / info.shape.elements().max(1);
    let mut state = 1u32;
    for element in bytes.chunks_exact_mut(size.max(1)) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The upper bits are an f32's between 1 and 2.
        let float = f32::from_bits(0x3F80_0000 | (state >> 9)) - 1.5;
        match info.dtype {
            DataType::FLOAT => element.copy_from_slice(&float.to_le_bytes()),
            DataType::DOUBLE => element.copy_from_slice(&f64::from(float).to_le_bytes()),
            DataType::FLOAT16 => element.copy_from_slice(&F16::from_f32(float).0.to_le_bytes()),
            DataType::BF16 => element.copy_from_slice(&Bf16::from_f32(float).0.to_le_bytes()),
            _ => element[0] = (state >> 31) as u8,
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use npu::shape::Shape;

    use super::*;

    #[test]
    fn noise_is_of_its_type_and_in_its_range() {
        let info = |dtype| TensorInfo::new(dtype, Shape::new(&[100]).unwrap());
        let floats = noise(&info(DataType::FLOAT)).unwrap();
        let floats = floats.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word));
        let floats: Vec<f32> = floats.collect();
        assert!(floats.iter().all(|x| (-0.5..0.5).contains(x)));
        assert!(floats.iter().any(|x| *x < -0.2) && floats.iter().any(|x| *x > 0.2));
        let halves = noise(&info(DataType::FLOAT16)).unwrap();
        for (half, float) in halves.as_chunks().0.iter().zip(&floats) {
            let half = F16(u16::from_le_bytes(*half)).to_f32();
            assert!((half - float).abs() < 1e-3, "{half} {float}");
        }
        let numbers = noise(&info(DataType::INT64)).unwrap();
        let numbers = numbers.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word));
        assert!(numbers.clone().any(|x| x == 1) && numbers.clone().all(|x| x == 0 || x == 1));
    }

    #[test]
    fn the_median_is_the_upper_one_of_two() {
        assert_eq!([median(&mut [3, 1, 2]), median(&mut [4, 1]), median(&mut [])], [2, 4, 0]);
    }
}
