//! One step of RNN, GRU and LSTM.

use crate::element::Real;
use crate::numbers::{Numbers, dot};
use crate::ops::exponential::{sigmoid, softplus};
use crate::ops::{Node, OpError};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::Fault;

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// h = f(W x + R h).
    Plain,
    Gru,
    Lstm,
}

/// Functions of gates, by their names; the parameters that they have when none are given.
const FUNCTIONS: [(&str, Function, [f32; 2]); 11] = [
    ("Affine", Function::Affine, [1.0, 0.0]),
    ("Elu", Function::Elu, [1.0, 0.0]),
    ("HardSigmoid", Function::HardSigmoid, [0.2, 0.5]),
    ("LeakyRelu", Function::LeakyRelu, [0.01, 0.0]),
    ("Relu", Function::Relu, [0.0, 0.0]),
    ("ScaledTanh", Function::ScaledTanh, [1.0, 1.0]),
    ("Sigmoid", Function::Sigmoid, [0.0, 0.0]),
    ("Softplus", Function::Softplus, [0.0, 0.0]),
    ("Softsign", Function::Softsign, [0.0, 0.0]),
    ("Tanh", Function::Tanh, [0.0, 0.0]),
    ("ThresholdedRelu", Function::ThresholdedRelu, [1.0, 0.0]),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Function {
    Affine,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    ScaledTanh,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
}

/// A function with its parameters.
#[derive(Clone, Copy, Debug)]
struct Act {
    function: Function,
    parameters: [f32; 2],
}

impl Act {
    fn of(self, x: f64) -> f64 {
        let [alpha, beta] = self.parameters.map(f64::from);
        match self.function {
            Function::Affine => alpha * x + beta,
            Function::Elu if x < 0.0 => alpha * x.exp_m1(),
            Function::LeakyRelu if x < 0.0 => alpha * x,
            Function::Elu | Function::LeakyRelu => x,
            Function::HardSigmoid => (alpha * x + beta).clamp(0.0, 1.0),
            Function::Relu => x.most(0.0),
            Function::ScaledTanh => alpha * (beta * x).tanh(),
            Function::Sigmoid => sigmoid(x),
            Function::Softplus => softplus(x),
            Function::Softsign => x / (1.0 + x.abs()),
            Function::Tanh => x.tanh(),
            Function::ThresholdedRelu if x > alpha => x,
            Function::ThresholdedRelu => 0.0,
        }
    }
}

/// A cell: the functions of both directions, and how gates are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    kind: Kind,
    acts: [[Act; 3]; 2],
    /// Gates are cut to this before their function; not when 0.
    clip: f32,
    /// GRU: the hidden state is multiplied before it is reset. LSTM: what is not kept is taken in.
    coupled: bool,
}

/// Weights, and the direction whose part of them counts.
pub(super) struct Gates<'a> {
    pub(super) w: Numbers<'a, f64>,
    pub(super) r: Numbers<'a, f64>,
    pub(super) bias: Option<Numbers<'a, f64>>,
    pub(super) peepholes: Option<Numbers<'a, f64>>,
    pub(super) direction: usize,
    /// Rows of W and R of a direction.
    pub(super) rows: usize,
}

impl Gates<'_> {
    /// A row of weights times a vector, which `line` has room for.
    fn product(&self, weights: Numbers<'_, f64>, row: usize, x: &[f64], line: &mut [f64]) -> f64 {
        let line = &mut line[..x.len()];
        weights.read((self.direction * self.rows + row) * x.len(), 1, line);
        dot(line, x)
    }

    /// W x of a row, with its bias.
    fn of_input(&self, row: usize, x: &[f64], line: &mut [f64]) -> f64 {
        let bias = self.bias.map_or(0.0, |bias| bias.get(2 * self.direction * self.rows + row));
        bias + self.product(self.w, row, x, line)
    }

    /// R h of a row, with its bias.
    fn of_state(&self, row: usize, h: &[f64], line: &mut [f64]) -> f64 {
        let first = (2 * self.direction + 1) * self.rows;
        let bias = self.bias.map_or(0.0, |bias| bias.get(first + row));
        bias + self.product(self.r, row, h, line)
    }

    /// A peephole of a unit, times its cell.
    fn peep(&self, gate: usize, unit: usize, c: &[f64]) -> f64 {
        let at = (3 * self.direction + gate) * c.len() + unit;
        self.peepholes.map_or(0.0, |own| own.get(at)) * c[unit]
    }
}

/// What a step works on.
pub(super) struct State<'a> {
    /// The hidden state and the cell.
    pub(super) h: &'a mut [f64],
    pub(super) c: &'a mut [f64],
    /// A number for each gate of each unit, and one more a unit.
    pub(super) gates: &'a mut [f64],
    /// Room for a row of weights.
    pub(super) line: &'a mut [f64],
}

impl Cell {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Gates of a unit.
    pub(super) fn gates(&self) -> usize {
        match self.kind {
            Kind::Plain => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    /// Functions of a direction.
    fn functions(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Plain => &["Tanh"],
            Kind::Gru => &["Sigmoid", "Tanh"],
            Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }

    pub(super) fn import(kind: Kind, directions: usize, node: &Node<'_>) -> Result<Self, OpError> {
        let defaults = Self::functions(kind);
        let each = defaults.len();
        let names: Vec<&str> = match node.texts("activations")? {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => defaults.iter().cycle().take(each * directions).copied().collect(),
        };
        if names.len() < each * directions {
            let supported = format!("{} names", each * directions);
            return Err(OpError::attribute("activations", format!("{names:?}"), supported));
        }
        let mut given = [
            node.floats("activation_alpha")?.unwrap_or_default().iter(),
            node.floats("activation_beta")?.unwrap_or_default().iter(),
        ];
        let plain = Act { function: Function::Tanh, parameters: [0.0; 2] };
        let mut acts = [[plain; 3]; 2];
        for (place, name) in names.iter().take(each * directions).enumerate() {
            let found = FUNCTIONS.iter().find(|(own, ..)| own.eq_ignore_ascii_case(name));
            let (_, function, mut parameters) = *found.ok_or_else(|| {
                let all: Vec<&str> = FUNCTIONS.iter().map(|(own, ..)| *own).collect();
                OpError::attribute("activations", name, all.join(", "))
            })?;
            // Lists go on where the function before has stopped; those without take nothing.
            let takes = match function {
                Function::Affine | Function::HardSigmoid | Function::ScaledTanh => 2,
                Function::Elu | Function::LeakyRelu | Function::ThresholdedRelu => 1,
                _ => 0,
            };
            for (parameter, list) in parameters.iter_mut().zip(&mut given).take(takes) {
                *parameter = list.next().copied().unwrap_or(*parameter);
            }
            acts[place / each][place % each] = Act { function, parameters };
        }
        let name = if kind == Kind::Lstm { "input_forget" } else { "linear_before_reset" };
        let coupled = kind != Kind::Plain && node.flag(name, false)?;
        Ok(Self { kind, acts, clip: node.float("clip", 0.0)?, coupled })
    }

    pub(super) fn encode(&self, into: &mut ParamWriter) {
        for act in self.acts.as_flattened() {
            let own = FUNCTIONS.iter().position(|(_, own, _)| *own == act.function);
            into.size(own.unwrap_or(0));
            act.parameters.iter().for_each(|own| into.f32(*own));
        }
        into.f32(self.clip);
        into.flag(self.coupled);
    }

    pub(super) fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let plain = Act { function: Function::Tanh, parameters: [0.0; 2] };
        let mut acts = [[plain; 3]; 2];
        for act in acts.as_flattened_mut() {
            let own = FUNCTIONS.get(from.size()?);
            let (_, function, _) = *own.ok_or_else(|| OpError::params("no such activation"))?;
            *act = Act { function, parameters: [from.f32()?, from.f32()?] };
        }
        Ok(Self { kind, acts, clip: from.f32()?, coupled: from.flag()? })
    }

    fn cut(&self, x: f64) -> f64 {
        if self.clip <= 0.0 {
            return x;
        }
        let clip = f64::from(self.clip);
        x.most(-clip).least(clip)
    }

    /// One step: from `x` and the state to the next state.
    pub(super) fn step(
        &self,
        own: &Gates<'_>,
        x: &[f64],
        state: &mut State<'_>,
    ) -> Result<(), Fault> {
        let State { h, c, gates, line } = state;
        let units = h.len();
        let gates = gates.get_mut(..own.rows + units).ok_or(Fault::Memory)?;
        let (gates, more) = gates.split_at_mut(own.rows);
        let [f, g, last] = self.acts[own.direction];
        match self.kind {
            Kind::Plain => {
                for (unit, to) in gates.iter_mut().enumerate() {
                    *to = f.of(self.cut(own.of_input(unit, x, line) + own.of_state(unit, h, line)));
                }
                h.copy_from_slice(gates);
            }
            Kind::Gru => {
                for (row, to) in gates[..2 * units].iter_mut().enumerate() {
                    *to = f.of(self.cut(own.of_input(row, x, line) + own.of_state(row, h, line)));
                }
                // The state as it is reset, before or behind its weights.
                for (unit, to) in more.iter_mut().enumerate() {
                    *to = gates[units + unit] * h[unit];
                }
                for unit in 0..units {
                    let row = 2 * units + unit;
                    let state = if self.coupled {
                        gates[units + unit] * own.of_state(row, h, line)
                    } else {
                        own.of_state(row, more, line)
                    };
                    gates[row] = g.of(self.cut(own.of_input(row, x, line) + state));
                }
                for (unit, to) in h.iter_mut().enumerate() {
                    let z = gates[unit];
                    *to = (1.0 - z) * gates[2 * units + unit] + z * *to;
                }
            }
            Kind::Lstm => {
                // Input, output, forget, cell.
                for (row, to) in gates.iter_mut().enumerate() {
                    *to = own.of_input(row, x, line) + own.of_state(row, h, line);
                }
                for unit in 0..units {
                    let i = f.of(self.cut(gates[unit] + own.peep(0, unit, c)));
                    let keep = if self.coupled {
                        1.0 - i
                    } else {
                        f.of(self.cut(gates[2 * units + unit] + own.peep(2, unit, c)))
                    };
                    c[unit] = keep * c[unit] + i * g.of(self.cut(gates[3 * units + unit]));
                    let o = f.of(self.cut(gates[units + unit] + own.peep(1, unit, c)));
                    h[unit] = o * last.of(c[unit]);
                }
            }
        }
        Ok(())
    }
}
