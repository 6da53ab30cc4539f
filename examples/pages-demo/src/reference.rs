//! The reference: the graph's functions called one after the other in this process.

use crate::input::Page;
use crate::outcome::Outcome;
use dflow::{AttrValue, CheckedFlow, FlowNode};
use flow_func::testing::{LocalMsg, LocalRunner};
use std::time::{Duration, Instant};

/// What the reference found.
#[derive(Debug)]
pub(crate) struct Reference {
    /// One outcome a page.
    pub(crate) outcomes: Vec<Outcome>,
    /// Time inside functions, all pages together.
    pub(crate) took: Duration,
}

/// The graph's functions, ready to be called.
pub(crate) struct Chain<'a>(Vec<(&'a str, LocalRunner)>);

/// Sends every page through the functions of `flow`; `tick` is called after each.
///
/// # Errors
/// As [`Chain::new`] and [`Chain::send`].
pub(crate) fn run(
    flow: &CheckedFlow,
    pages: &[Page],
    mut tick: impl FnMut(),
) -> Result<Reference, String> {
    let mut chain = Chain::new(flow)?;
    let mut outcomes = Vec::with_capacity(pages.len());
    let start = Instant::now();
    for page in pages {
        outcomes.push(chain.send(&page.file)?);
        tick();
    }
    Ok(Reference { outcomes, took: start.elapsed() })
}

impl<'a> Chain<'a> {
    /// Creates and initialises every function of `flow`.
    ///
    /// # Errors
    /// A function that `examples/pages` lacks, or whose init fails; or a graph that is no chain.
    pub(crate) fn new(flow: &'a CheckedFlow) -> Result<Self, String> {
        let mut chain = Vec::new();
        for index in flow.order() {
            let (name, node) = (flow.graph().nodes.name(*index), flow.graph().nodes.item(*index));
            if node.inputs.len() != 1 || node.outputs.len() != 1 {
                let why = "the demo checks chains of one input and one output";
                return Err(format!("node `{name}`: {why}"));
            }
            chain.push((name, runner(name, node)?));
        }
        Ok(Chain(chain))
    }

    /// One page through all of them.
    ///
    /// # Errors
    /// A call that would end its process.
    pub(crate) fn send(&mut self, file: &[u8]) -> Result<Outcome, String> {
        let wrong = |code: i32| format!("reference: a call answers {code}");
        let len = i64::try_from(file.len()).unwrap_or(i64::MAX);
        let mut msg = LocalMsg::tensor(&[len], file).map_err(wrong)?;
        let mut coded_by = None;
        for (name, runner) in &mut self.0 {
            let outputs = runner.run(&[&msg]).map_err(wrong)?;
            let output = outputs.first().and_then(|messages| messages.first());
            msg = output.cloned().ok_or_else(|| format!("reference: `{name}` sent nothing"))?;
            if msg.info().ret_code != 0 {
                coded_by.get_or_insert_with(|| (*name).to_owned());
            }
        }
        Ok(match msg.info().ret_code {
            0 => Outcome::Row(msg.bytes().to_vec()),
            code => Outcome::coded(code, coded_by, "a code of the function"),
        })
    }
}

fn runner(name: &str, node: &FlowNode) -> Result<LocalRunner, String> {
    let known = ["decode", "deskew", "binarise", "measure"];
    let function = known.into_iter().find(|known| *known == node.function).ok_or_else(|| {
        format!("node `{name}`: found function `{}`, expected one of {known:?}", node.function)
    })?;
    let mut builder = LocalRunner::builder(pages::flow_library(), function);
    for (key, value) in &node.attrs {
        #[expect(clippy::cast_possible_truncation, reason = "functions see floats as f32")]
        let value: flow_func::attrs::AttrValue = match value {
            AttrValue::Int(value) => (*value).into(),
            AttrValue::Float(value) => (*value as f32).into(),
            AttrValue::Bool(value) => (*value).into(),
            AttrValue::Text(value) => value.as_str().into(),
            other => {
                return Err(format!("node `{name}`: attribute `{key}`: {other:?} is no scalar"));
            }
        };
        builder = builder.attr(key, value);
    }
    builder.build().map_err(|code| format!("node `{name}`: init answers {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_page_names_its_function_and_the_rest_goes_on() {
        let graph = concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/pages.yaml");
        let graph = dflow::graph_file::read(graph.as_ref()).expect("graph");
        let flow = graph.check_structure().expect("checked");
        let spec = pages_render::standard_set(2)[1];
        let png = pages_render::Renderer::new().expect("fonts").render(&spec).to_png();
        let page = |file| Page { name: String::new(), file, known_skew: None };
        let pages = [page(b"\x89PNG broken".to_vec()), page(png.expect("png"))];
        let mut ticks = 0;
        let found = run(&flow, &pages, || ticks += 1).expect("runs").outcomes;
        assert_eq!(ticks, 2);
        assert_eq!(found[0].text(), "decode: not a readable PNG or JPEG file [9900001]");
        let measure = found[1].measure().expect("a record");
        assert!((measure.skew_degrees() - spec.skew_degrees).abs() < 0.3);
    }
}
