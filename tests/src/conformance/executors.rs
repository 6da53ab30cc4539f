//! Real processes: a flow deployed by the host library, models as nodes of one device.
//!
//! ```text
//! load:  in… ─► model…               ─► out…      inputs of the session, checked by it
//! flow:  bytes… ─► `send` ─► model   ─► out…      whatever a case sends reaches the executor
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use dflow::{
    DType, DeployOptions, Event, Feed, FlowGraph, FlowNode, GraphInput, Limits, MonoTime,
    NodeOutput, Session, Tensor,
};

use super::onnx::{Onnx, Port};
use super::{Answer, Backend, Flow, Loaded, Message, Presence, Step, Stop, Values, tensor};
use crate::flows;

/// Nothing here takes that long unless it hangs.
const WATCHDOG_MS: u64 = 60_000;
/// Room for messages that are larger than the model expects, bytes.
const LARGER: u64 = 4096;

/// The backend.
#[derive(Clone, Copy, Debug)]
pub struct Executors;

impl Backend for Executors {
    fn name(&self) -> &'static str {
        "executors"
    }

    fn presence(&self) -> Presence {
        Presence::Present
    }

    fn load(&self, models: &[Onnx]) -> Step<Box<dyn Loaded>> {
        let files = models.iter().map(File::write).collect::<Step<Vec<_>>>()?;
        let mut graph = graph();
        for (index, (model, file)) in models.iter().zip(&files).enumerate() {
            let mut node = FlowNode::model(&file.0);
            for port in &model.inputs {
                let input = GraphInput::new(port.dtype, open(port));
                graph = graph.input(&port.name, input.max_bytes(payload(port) + LARGER));
                node = node.input(&port.name, port.name.as_str());
            }
            graph = graph.node(format!("model{index}"), node);
            for port in &model.outputs {
                graph = graph.output(&port.name, format!("model{index}.{}", port.name).as_str());
            }
        }
        let ports = |ports: fn(&Onnx) -> &Vec<Port>| -> Vec<String> {
            models.iter().flat_map(ports).map(|port| port.name.clone()).collect()
        };
        let (inputs, outputs) = (ports(|model| &model.inputs), ports(|model| &model.outputs));
        let session = deploy(graph)?;
        Ok(Box::new(Deployed { session, inputs, outputs, early: Vec::new() }))
    }

    fn flow(&self, model: &Onnx) -> Step<Box<dyn Flow>> {
        let file = File::write(model)?;
        let (mut graph, mut node) = (graph(), FlowNode::model(&file.0));
        for (index, port) in model.inputs.iter().enumerate() {
            let (input, sender) = (format!("bytes{index}"), format!("send{index}"));
            let bytes = payload(port) + LARGER;
            let output = NodeOutput::new(port.dtype, open(port)).max_bytes(bytes);
            let send = FlowNode::udf(flows::library(), "send").input("in", input.as_str());
            graph = graph
                .input(&input, GraphInput::new(DType::Uint8, [-1]).max_bytes(bytes + LARGER))
                .node(&sender, send.output("out", output));
            node = node.input(&port.name, format!("{sender}.out").as_str());
        }
        graph = graph.node("model", node);
        for port in &model.outputs {
            graph = graph.output(&port.name, format!("model.{}", port.name).as_str());
        }
        let outputs = model.outputs.iter().map(|port| port.name.clone()).collect();
        let session = deploy(graph)?;
        Ok(Box::new(Deployed { session, inputs: Vec::new(), outputs, early: Vec::new() }))
    }
}

/// A model's file, which goes with its value.
struct File(PathBuf);

impl File {
    fn write(model: &Onnx) -> Step<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance-{}-{number}.onnx", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, model.bytes()).map_err(Stop::failed)?;
        Ok(Self(path))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

fn watchdog() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(WATCHDOG_MS))
}

/// A graph whose models are compiled by this build, not taken from what another one kept.
fn graph() -> FlowGraph {
    let mut graph = FlowGraph::new("conformance");
    graph.no_cache = true;
    graph
}

/// A port's shape with every dim open, so that a wrong one gets to the model.
fn open(port: &Port) -> Vec<i64> {
    vec![-1; port.dims.len()]
}

fn payload(port: &Port) -> u64 {
    dflow::Shape(port.dims.clone()).payload_bytes(port.dtype).unwrap_or(0)
}

fn deploy(graph: FlowGraph) -> Step<Session> {
    let checked = graph.check().map_err(|refused| Stop::Refused(refused.to_string()))?;
    let plan = checked.plan(&Limits::default()).map_err(Stop::failed)?;
    plan.deploy(&DeployOptions::default()).map_err(Stop::failed)
}

struct Deployed {
    session: Session,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Events of ids after the one that is waited for.
    early: Vec<Event>,
}

/// What one output says of an id.
enum Part {
    Data(Tensor),
    Code(u32),
    NoData,
}

fn part(event: &Event) -> Step<Part> {
    let output = match &event.outcome {
        Ok(output) => output,
        Err(failure) => return Ok(Part::Code(failure.code.0)),
    };
    if output.is_null() {
        return Ok(Part::NoData);
    }
    let dtype = DType::of_code(output.data_type().0);
    let dtype = dtype.ok_or_else(|| Stop::failed(format_args!("{:?}", output.data_type())))?;
    let (shape, bytes) = (output.shape().to_vec(), output.bytes().to_vec());
    Ok(Part::Data(Tensor { dtype, shape, bytes }))
}

impl Deployed {
    /// The events of the oldest id that has any, one an output.
    fn next(&mut self) -> Step<(u64, Vec<Part>)> {
        let wanted = self.outputs.len();
        let mut own: Vec<Event> = std::mem::take(&mut self.early);
        let mut rest = match own.first().map(|event| event.trans_id) {
            Some(id) => own.extract_if(.., |event| event.trans_id != id).collect(),
            None => Vec::new(),
        };
        while own.len() < wanted {
            let event = self.session.fetch(watchdog()).map_err(Stop::failed)?;
            let mine = own.first().is_none_or(|first| first.trans_id == event.trans_id);
            if mine { own.push(event) } else { rest.push(event) }
        }
        self.early = rest;
        own.sort_by_key(|event| event.port);
        let id = own.first().map_or(0, |event| event.trans_id);
        let parts = own.iter().map(part).collect::<Step<Vec<_>>>()?;
        Ok((id, parts))
    }

    fn answer(parts: Vec<Part>) -> Step<Answer> {
        let mut tensors = Vec::new();
        let mut others = Vec::new();
        for part in parts {
            match part {
                Part::Data(tensor) => tensors.push(tensor),
                Part::Code(code) => others.push(Answer::Code(code)),
                Part::NoData => others.push(Answer::NoData),
            }
        }
        match others.first() {
            None => Ok(Answer::Data(tensors)),
            Some(first) if tensors.is_empty() && others.iter().all(|other| other == first) => {
                Ok(first.clone())
            }
            Some(first) => {
                let (data, other) = (tensors.len(), others.len());
                let text = format!("{data} outputs have data, {other} not: {first:?}");
                Err(Stop::Failed(text))
            }
        }
    }

    fn end(self) -> Step {
        let left = self.early.len();
        drop(self.early);
        self.session.close();
        if left == 0 { Ok(()) } else { Err(Stop::failed(format_args!("{left} events too many"))) }
    }
}

impl Loaded for Deployed {
    fn run(&mut self, inputs: &Values) -> Step<Result<Values, u32>> {
        let tensors = self.inputs.iter().map(|name| tensor::of(inputs, name).cloned());
        let feed = Feed::of(tensors.collect::<Step<Vec<_>>>()?);
        let fed = match self.session.feed(feed, watchdog()) {
            Ok(id) => id,
            // What the session can see is refused by it already, with the code of the executor.
            Err(error) => return Ok(Err(error.reason.code().0)),
        };
        let (id, parts) = self.next()?;
        if id != fed {
            return Err(Stop::failed(format_args!("id {id} came, expected {fed}")));
        }
        match Self::answer(parts)? {
            Answer::Data(tensors) => Ok(Ok(self.outputs.iter().cloned().zip(tensors).collect())),
            Answer::Code(code) => Ok(Err(code)),
            Answer::NoData => Err(Stop::failed("a result without data")),
        }
    }

    fn unload(self: Box<Self>) -> Step {
        self.end()
    }
}

/// A message as the function `send` reads it.
fn described(message: &Message) -> Tensor {
    let mut bytes = Vec::new();
    let mut word = |value: i64| bytes.extend(value.to_le_bytes());
    match message {
        Message::Tensor(tensor) => {
            word(0);
            word(i64::from(tensor.dtype.code()));
            word(i64::try_from(tensor.shape.len()).unwrap_or(0));
            tensor.shape.iter().for_each(|dim| word(*dim));
            bytes.extend(&tensor.bytes);
        }
        Message::Code(code) => {
            word(1);
            word(i64::from(*code));
        }
        Message::NoData => word(2),
    }
    Tensor::bytes(bytes)
}

impl Flow for Deployed {
    fn feed(&mut self, messages: Vec<Message>) -> Step<u64> {
        let tensors = messages.iter().map(described).collect();
        self.session.feed(Feed::of(tensors), watchdog()).map_err(Stop::failed)
    }

    fn fetch(&mut self) -> Step<(u64, Answer)> {
        let (id, parts) = self.next()?;
        Ok((id, Self::answer(parts)?))
    }

    fn close(self: Box<Self>) -> Step {
        self.end()
    }
}
