//! A model between queues: order of ids, and messages that are not what it expects.

use super::loads::plus;
use super::{Case, Run};
use crate::conformance::onnx::Onnx;
use crate::conformance::tensor::{compare, floats, ints, longs};
use crate::conformance::{Answer, Backend, Flow, Message, Step, Stop};

/// `PARAM_INVALID`: what an id with an input of another type or shape ends with.
const PARAM_INVALID: u32 = 145_000;
/// A code of a user function.
const USER: i32 = 9_900_200;

pub(super) const CASES: &[Case] = &[
    Case { name: "flow/ids-in-order", run: Run::Steps(ids_in_order) },
    Case { name: "flow/wrong-shape-and-type", run: Run::Steps(does_not_fit) },
    Case { name: "flow/codes-pass-through", run: Run::Steps(codes) },
    Case { name: "flow/no-data-passes-through", run: Run::Steps(no_data) },
    Case { name: "flow/one-code-of-two-inputs", run: Run::Steps(one_of_two) },
];

fn one(value: f32) -> Message {
    Message::Tensor(floats(&[1], &[value]))
}

/// Feeds one id; its answer must come next.
fn ask(flow: &mut dyn Flow, messages: Vec<Message>) -> Step<Answer> {
    let fed = flow.feed(messages)?;
    let (id, answer) = flow.fetch()?;
    if id == fed {
        Ok(answer)
    } else {
        Err(Stop::failed(format_args!("id {id} came, expected {fed}")))
    }
}

fn expect_value(answer: &Answer, value: f32) -> Step {
    match answer {
        Answer::Data(tensors) if tensors.len() == 1 => {
            compare("y", &tensors[0], &floats(&[1], &[value]), 0.0)
        }
        other => Err(Stop::failed(format_args!("{other:?}, expected {value}"))),
    }
}

fn expect(answer: &Answer, expected: &Answer) -> Step {
    if answer == expected {
        Ok(())
    } else {
        Err(Stop::failed(format_args!("{answer:?}, expected {expected:?}")))
    }
}

/// Four ids are open all the time.
fn ids_in_order(backend: &dyn Backend) -> Step {
    let mut flow = backend.flow(&plus("", &[0.25]))?;
    let mut open = std::collections::VecDeque::new();
    for round in 0..200u16 {
        if round >= 4 {
            let (id, answer) = flow.fetch()?;
            let oldest: Option<(u64, f32)> = open.pop_front();
            let (expected, value) = oldest.ok_or_else(|| Stop::failed("nothing is open"))?;
            if id != expected {
                return Err(Stop::failed(format_args!("id {id} came, expected {expected}")));
            }
            expect_value(&answer, value + 0.25)?;
        }
        let value = f32::from(round);
        open.push_back((flow.feed(vec![one(value)])?, value));
    }
    for (expected, value) in open {
        let (id, answer) = flow.fetch()?;
        if id != expected {
            return Err(Stop::failed(format_args!("id {id} came, expected {expected}")));
        }
        expect_value(&answer, value + 0.25)?;
    }
    flow.close()
}

fn does_not_fit(backend: &dyn Backend) -> Step {
    let mut flow = backend.flow(&plus("", &[1.0]))?;
    let wrong = [
        floats(&[2], &[0.0; 2]),
        floats(&[1, 1], &[0.0]),
        floats(&[], &[0.0]),
        floats(&[0], &[]),
        ints(&[1], &[0]),
        longs(&[1], &[0]),
    ];
    for (wrong, value) in wrong.into_iter().zip([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]) {
        let answer = ask(&mut *flow, vec![Message::Tensor(wrong)])?;
        expect(&answer, &Answer::Code(PARAM_INVALID))?;
        expect_value(&ask(&mut *flow, vec![one(value)])?, value + 1.0)?;
    }
    flow.close()
}

fn codes(backend: &dyn Backend) -> Step {
    let mut flow = backend.flow(&plus("", &[1.0]))?;
    for code in [1, USER, i32::MAX] {
        let answer = ask(&mut *flow, vec![Message::Code(code)])?;
        expect(&answer, &Answer::Code(code.cast_unsigned()))?;
        expect_value(&ask(&mut *flow, vec![one(3.0)])?, 4.0)?;
    }
    flow.close()
}

fn no_data(backend: &dyn Backend) -> Step {
    let mut flow = backend.flow(&plus("", &[1.0]))?;
    for value in [1.0f32, 2.0] {
        expect(&ask(&mut *flow, vec![Message::NoData])?, &Answer::NoData)?;
        expect_value(&ask(&mut *flow, vec![one(value)])?, value + 1.0)?;
    }
    flow.close()
}

fn one_of_two(backend: &dyn Backend) -> Step {
    let float = dflow::DType::Float32;
    let model = Onnx::new(14)
        .input("a", float, &[1])
        .input("b", float, &[1])
        .node("Add", &["a", "b"], "y", &[])
        .output("y", float, &[1]);
    let mut flow = backend.flow(&model)?;
    let code = || Message::Code(USER);
    let answer = Answer::Code(USER.cast_unsigned());
    expect(&ask(&mut *flow, vec![one(1.0), code()])?, &answer)?;
    expect(&ask(&mut *flow, vec![code(), one(1.0)])?, &answer)?;
    expect(&ask(&mut *flow, vec![Message::NoData, code()])?, &answer)?;
    expect(&ask(&mut *flow, vec![Message::NoData, one(1.0)])?, &Answer::NoData)?;
    expect_value(&ask(&mut *flow, vec![one(1.0), one(2.0)])?, 3.0)?;
    flow.close()
}
