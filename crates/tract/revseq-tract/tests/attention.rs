//! Attention of ONNX's opset 23 and later, against its definition.

use revseq_test_models::text;
use revseq_tract::{LoadOptions, Session, Sizes};
use tract_onnx::prelude::*;
use tract_onnx::tract_hir::internal::Approximation;

const BATCH: usize = 2;
const QUERIES: usize = 3;
const KEYS: usize = 4;
const SIZE: usize = 4;
const VALUE_SIZE: usize = 2;

/// What a node is given.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// The heads of the queries and of the keys.
    heads: [usize; 2],
    /// Whether the inputs have their heads side by side.
    is_flat: bool,
    past: Option<usize>,
    /// Whether keys that are no multiple of 3 behind a query are masked.
    has_mask: bool,
    has_bias: bool,
    has_lengths: bool,
    is_causal: bool,
    window: Option<[usize; 2]>,
    cap: Option<f32>,
}

/// A number that differs from its neighbours.
fn number(seed: usize, place: [usize; 4]) -> f32 {
    let [a, b, c, d] = place;
    let mixed = seed * 31 + a * 17 + b * 7 + c * 5 + d * 3 + (a + 2 * b + 3 * c + d) * (d + 1) % 11;
    (mixed % 23) as f32 / 11.0 - 1.0
}

impl Case {
    fn past(&self) -> usize {
        self.past.unwrap_or_default()
    }

    fn keys(&self) -> usize {
        self.past() + KEYS
    }

    /// The number of keys of a batch's element that are no padding.
    fn length(&self, batch: usize) -> usize {
        if self.has_lengths {
            1 + 2 * batch
        } else {
            self.keys()
        }
    }

    /// What is added to the score of a key, -∞ if the query may not see it.
    fn bias(&self, batch: usize, query: usize, key: usize) -> f64 {
        let before = match self.has_lengths {
            true => self.length(batch) as i64 - QUERIES as i64,
            false => self.past() as i64,
        };
        let (place, at) = (before + query as i64, key as i64);
        let [left, right] = match self.window {
            Some(window) => window.map(|it| it as i64),
            None => [i64::MAX / 2; 2],
        };
        let right = if self.is_causal { 0 } else { right };
        let is_seen = key < self.length(batch)
            && (place - left..=place + right).contains(&at)
            && !(self.has_mask && Self::is_masked(query, key));
        match (is_seen, self.has_bias) {
            (false, _) => f64::NEG_INFINITY,
            (true, true) => f64::from(number(9, [query, key, 0, 0])),
            (true, false) => 0.0,
        }
    }

    fn is_masked(query: usize, key: usize) -> bool {
        query == 1 || (query + key).is_multiple_of(3)
    }

    /// The output, [batch, heads, queries, size].
    fn expected(&self) -> Vec<f64> {
        let mut all = vec![];
        let [queries, keys] = self.heads;
        for (batch, head) in (0..BATCH).flat_map(|batch| (0..queries).map(move |it| (batch, it))) {
            let of_keys = head / (queries / keys);
            for query in 0..QUERIES {
                let score = |key: usize| {
                    let products = (0..SIZE).map(|it| {
                        let key = number(1, [batch, of_keys, key, it]);
                        f64::from(number(0, [batch, head, query, it])) * f64::from(key)
                    });
                    let score = products.sum::<f64>() / (SIZE as f64).sqrt();
                    let score = match self.cap.map(f64::from) {
                        Some(cap) => cap * (score / cap).tanh(),
                        None => score,
                    };
                    (score + self.bias(batch, query, key)).exp()
                };
                let scores: Vec<f64> = (0..self.keys()).map(score).collect();
                let sum: f64 = scores.iter().sum();
                for place in 0..VALUE_SIZE {
                    let shares = scores.iter().enumerate().map(|(key, score)| {
                        let share = if sum > 0.0 { score / sum } else { 0.0 };
                        share * f64::from(number(2, [batch, of_keys, key, place]))
                    });
                    all.push(shares.sum());
                }
            }
        }
        all
    }

    /// Some positions of queries, keys or values.
    fn heads_of(
        &self,
        seed: usize,
        heads: usize,
        size: usize,
        places: std::ops::Range<usize>,
    ) -> Tensor {
        let shape = [BATCH, heads, places.len(), size];
        let numbers = tract_ndarray::Array4::from_shape_fn(shape, |(a, b, c, d)| {
            number(seed, [a, b, places.start + c, d])
        });
        numbers.into_tensor()
    }

    /// The inputs, which are named after ONNX's.
    fn inputs(&self) -> Vec<(&'static str, Tensor)> {
        let [queries, keys] = self.heads;
        let new = self.past()..self.keys();
        let flat = |tensor: Tensor| match self.is_flat {
            true => flat(tensor),
            false => tensor,
        };
        let mut inputs = vec![
            ("q", flat(self.heads_of(0, queries, SIZE, 0..QUERIES))),
            ("k", flat(self.heads_of(1, keys, SIZE, new.clone()))),
            ("v", flat(self.heads_of(2, keys, VALUE_SIZE, new))),
        ];
        let shape = [QUERIES, self.keys()];
        if self.has_mask {
            let mask = |(query, key)| !Self::is_masked(query, key);
            let mask = tract_ndarray::Array2::from_shape_fn(shape, mask);
            inputs.push(("mask", mask.into_tensor()));
        } else if self.has_bias {
            let bias = |(query, key)| number(9, [query, key, 0, 0]);
            let bias = tract_ndarray::Array2::from_shape_fn(shape, bias);
            inputs.push(("mask", bias.into_tensor()));
        }
        if let Some(past) = self.past {
            inputs.push(("past_k", self.heads_of(1, keys, SIZE, 0..past)));
            inputs.push(("past_v", self.heads_of(2, keys, VALUE_SIZE, 0..past)));
        }
        if self.has_lengths {
            let lengths: Vec<i64> = (0..BATCH).map(|it| self.length(it) as i64).collect();
            inputs.push(("lengths", tensor1(&lengths)));
        }
        inputs
    }

    fn attributes(&self) -> String {
        let mut text = format!("is_causal={}", i32::from(self.is_causal));
        if self.is_flat {
            let [queries, keys] = self.heads;
            text += &format!(";q_num_heads={queries};kv_num_heads={keys}");
        }
        if let Some([left, right]) = self.window {
            text += &format!(";left_window_size={left};right_window_size={right}");
        }
        if let Some(cap) = self.cap {
            text += &format!(";softcap={cap:?}");
        }
        text
    }

    /// A model of the node, with symbols for the batch and the positions.
    fn model(&self) -> Vec<u8> {
        let inputs = self.inputs();
        let names = ["q", "k", "v", "mask", "past_k", "past_v", "lengths"];
        let names = names.map(|name| match inputs.iter().any(|it| it.0 == name) {
            true => name,
            false => "_",
        });
        let keys = if self.past.is_some() { "keys" } else { "new" };
        let declared = inputs.iter().map(|(name, tensor)| {
            let symbols: &[&str] = match *name {
                "q" => &["batch", "queries"],
                "k" | "v" => &["batch", "new"],
                "past_k" | "past_v" => &["batch", "past"],
                "mask" => &["queries", keys],
                _ => &["batch"],
            };
            declared(name, tensor, symbols)
        });
        let declared: Vec<String> = declared.collect();
        let outputs = match self.past {
            Some(_) => "y present_k present_v",
            None => "y",
        };
        let graph = format!(
            "{} -> {outputs}
             {} = Attention<{}>({})",
            declared.join(" "),
            outputs.replace(' ', ", "),
            self.attributes(),
            names.join(", ")
        );
        text::model(text::graph(&graph), 25)
    }

    fn check(&self) {
        for sizes in [Sizes::Symbolic, Sizes::OfData] {
            let options = LoadOptions::new().with_sizes(sizes);
            let session = Session::from_bytes(&self.model(), &options);
            let session = session.unwrap_or_else(|error| panic!("{self:?}: {error}"));
            if sizes == Sizes::Symbolic {
                assert!(session.is_symbolic(), "{self:?}");
            }
            let outputs = session.run(self.inputs());
            let outputs = outputs.unwrap_or_else(|error| panic!("{self:?}: {error}"));
            let expected: Vec<f32> = self.expected().iter().map(|it| *it as f32).collect();
            let shape = [BATCH, self.heads[0], QUERIES, VALUE_SIZE];
            let mut expected = tensor1(&expected).into_shape(&shape).unwrap();
            if self.is_flat {
                expected = flat(expected);
            }
            let found = outputs["y"].close_enough(&expected, Approximation::Close);
            found.unwrap_or_else(|error| panic!("{self:?}, {sizes:?}: {error}"));
            if self.past.is_some() {
                let present = self.heads_of(1, self.heads[1], SIZE, 0..self.keys());
                assert_eq!(outputs["present_k"], present);
            }
        }
    }
}

/// Declares an input with names for its first and its third size, or its second of three or two.
fn declared(name: &str, tensor: &Tensor, symbols: &[&str]) -> String {
    let datum_type = match tensor.datum_type() {
        DatumType::Bool => "bool",
        DatumType::I64 => "i64",
        _ => "f32",
    };
    let mut symbols = symbols.iter();
    let sizes = tensor.shape().iter().enumerate().map(|(axis, size)| {
        let is_heads = axis == 1 && tensor.rank() == 4;
        let symbol = if is_heads { None } else { symbols.next() };
        symbol.map_or(size.to_string(), |it| (*it).to_owned())
    });
    let sizes: Vec<String> = sizes.collect();
    format!("{name}:{datum_type}[{}]", sizes.join(","))
}

/// Puts heads side by side.
fn flat(tensor: Tensor) -> Tensor {
    let [batch, heads, places, size] = *tensor.shape() else {
        panic!("four axes");
    };
    let tensor = tensor.permute_axes(&[0, 2, 1, 3]).unwrap();
    tensor.into_shape(&[batch, places, heads * size]).unwrap()
}

#[test]
fn attention_computes_what_onnx_defines() {
    let plain = Case {
        heads: [2, 2],
        is_flat: false,
        past: None,
        has_mask: false,
        has_bias: false,
        has_lengths: false,
        is_causal: false,
        window: None,
        cap: None,
    };
    let changes: [fn(&mut Case); 11] = [
        |_| {},
        |case| (case.cap, case.has_bias) = (Some(0.75), true),
        |case| (case.has_mask, case.past) = (true, Some(2)),
        |case| case.is_causal = true,
        |case| (case.is_causal, case.past, case.has_mask) = (true, Some(3), true),
        |case| (case.is_causal, case.past, case.has_bias) = (true, Some(0), true),
        |case| (case.is_causal, case.has_lengths) = (true, true),
        |case| (case.has_lengths, case.has_bias) = (true, true),
        |case| case.window = Some([1, 1]),
        |case| (case.window, case.is_causal, case.past) = (Some([0, 2]), true, Some(2)),
        |case| {
            (case.window, case.has_lengths, case.has_mask) = (Some([1, 0]), true, true);
        },
    ];
    for is_flat in [false, true] {
        for heads in [[2, 2], [4, 2], [3, 1]] {
            for change in changes {
                let mut case = Case {
                    heads,
                    is_flat,
                    ..plain
                };
                change(&mut case);
                case.check();
            }
        }
    }
}
