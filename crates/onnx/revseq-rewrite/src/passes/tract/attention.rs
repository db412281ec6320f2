//! Attention of ONNX's opset 23 and later, as the operators that its page defines it by.
//!
//! Queries, keys and values have heads of their own, which inputs of three axes have side by side. A
//! key that no query may see gets a score of -∞; a query that sees no key gets zeros.
//!
//! ```text
//! y = Attention<is_causal=1>(q, k, v)
//!   →  scores = MatMul(Mul(q, scale), Transpose(k))
//!      y = MatMul(Softmax(Where(key <= query, scores, -∞)), v)
//! ```

use crate::emit::Emit;
use crate::model::{self, BOOL, FLOAT, NodeProto};
use crate::pass::{At, Pass, Verdict};
use crate::passes::known_size;
use crate::scope::Scope;
use crate::sizes;
use crate::types;

pub(super) const PASS: Pass = Pass::rounding(
    "attention",
    "Attention, to products of matrices and Softmax",
    find,
)
.of(&["Attention"]);

fn find(at: &At<'_>) -> Verdict {
    let &At { scope, node, .. } = at;
    let emit = at.replacement()?;
    let attention = Attention { scope, node, emit };
    let written = attention.write()?;
    attention.emit.finish_with(written, "products and Softmax")
}

/// Why a node is left.
type Why = &'static str;

const WRONG_TYPE: Why = "an attribute has another type than ONNX's";

/// A node, and what is written for it.
struct Attention<'a, 'n> {
    scope: &'a Scope<'a>,
    node: &'a NodeProto,
    emit: Emit<'n>,
}

/// Queries, keys or values as [batch, heads, positions, size of a head].
struct Heads {
    value: String,
    count: i64,
    /// The size of a head, if it is known.
    size: Option<i64>,
}

impl Attention<'_, '_> {
    fn write(&self) -> Result<String, Why> {
        let head_counts = [self.int("q_num_heads", 0)?, self.int("kv_num_heads", 0)?];
        let is_flat = self.rank(0)? == 3;
        let queries = self.heads(0, head_counts[0])?;
        let keys = self.heads(1, head_counts[1])?;
        let values = self.heads(2, head_counts[1])?;
        let keys = self.with_past(keys, 4, 1);
        let values = self.with_past(values, 5, 2);
        let scores = self.scores(&queries, &keys)?;
        let probabilities = self.probabilities(&queries, &keys, scores)?;
        let of_queries = self.repeated(&values, queries.count)?;
        let product = self.emit.op("MatMul", (probabilities, &of_queries));
        if !is_flat {
            return Ok(product);
        }
        let product = self.emit.transpose(&product, &[0, 2, 1, 3]);
        let width = match values.size {
            Some(size) => self.emit.ints(&[queries.count * size]),
            None => {
                let size = self.emit.sizes(&of_queries, 3, 4);
                self.emit.op("Mul", (size, [queries.count]))
            }
        };
        let shape = self
            .emit
            .concat((self.emit.sizes(&product, 0, 2), width), 0);
        Ok(self.emit.op("Reshape", (product, shape)))
    }

    fn int(&self, name: &str, default: i64) -> Result<i64, Why> {
        self.node.int(name).or(default).ok_or(WRONG_TYPE)
    }

    /// An attribute, unless it is 0.
    fn number_given(&self, name: &str) -> Result<Option<f32>, Why> {
        let number = self.node.float(name).or(0.0).ok_or(WRONG_TYPE)?;
        Ok(Some(number).filter(|number| *number != 0.0))
    }

    fn rank(&self, input: usize) -> Result<usize, Why> {
        let name = self.node.input(input).ok_or("an input is missing")?;
        sizes::rank(self.scope, name).ok_or("the number of axes of its inputs is not known")
    }

    /// The size of an axis of an input, if it is known.
    fn size(&self, input: usize, axis: usize) -> Option<i64> {
        known_size(self.scope, self.node.input(input)?, axis)
    }

    /// A scalar of the queries' type.
    fn number(&self, value: f32) -> String {
        let queries = self.node.input(0).unwrap_or_default();
        let number = self.emit.tensor(model::float_scalar(value));
        match types::of(self.scope, queries) {
            Some(FLOAT) => number,
            _ => self.emit.op("CastLike", (number, queries)),
        }
    }

    /// Takes an input apart into its heads.
    fn heads(&self, input: usize, head_count: i64) -> Result<Heads, Why> {
        let value = self.node.input(input).unwrap_or_default().to_owned();
        match self.rank(input)? {
            4 => Ok(Heads {
                value,
                count: self
                    .size(input, 1)
                    .ok_or("its number of heads is not known")?,
                size: self.size(input, 3),
            }),
            3 if head_count > 0 => {
                let width = self.size(input, 2);
                if width.is_some_and(|width| width % head_count != 0) {
                    return Err("the width of an input is no multiple of its heads");
                }
                let size = width.map(|width| width / head_count);
                let outer = self.emit.sizes(&value, 0, 2);
                let of_head = match size {
                    Some(size) => self.emit.ints(&[size]),
                    None => self
                        .emit
                        .op("Div", (self.emit.sizes(&value, 2, 3), [head_count])),
                };
                let shape = self.emit.concat((outer, [head_count], of_head), 0);
                let value = self.emit.op("Reshape", (value, shape));
                Ok(Heads {
                    value: self.emit.transpose(&value, &[0, 2, 1, 3]),
                    count: head_count,
                    size,
                })
            }
            3 => Err("its inputs have three axes, and it names no number of heads"),
            _ => Err("its inputs have neither three axes nor four"),
        }
    }

    /// Puts the keys or values of earlier positions in front, which an output has, too.
    fn with_past(&self, heads: Heads, input: usize, output: usize) -> Heads {
        let present = self.node.output.get(output).filter(|it| !it.is_empty());
        let Some(past) = self.node.input(input) else {
            if let Some(present) = present {
                self.emit.same(present, &heads.value);
            }
            return heads;
        };
        let mut value = self.emit.concat((past, heads.value), 2);
        if let Some(present) = present {
            self.emit.give(present, value);
            value = present.clone();
        }
        Heads { value, ..heads }
    }

    /// Repeats each head for the queries that share it.
    fn repeated(&self, heads: &Heads, count: i64) -> Result<String, Why> {
        let value = &heads.value;
        if heads.count == count {
            return Ok(value.clone());
        }
        if heads.count <= 0 || count % heads.count != 0 {
            return Err("the number of its queries' heads is no multiple of that of its keys");
        }
        let apart = self.emit.unsqueeze(value, &[2]);
        let times = [1, 1, count / heads.count, 1, 1];
        let apart = self.emit.op("Expand", (apart, times));
        let [batch, rest] = [(0, 1), (2, 4)].map(|(start, end)| self.emit.sizes(value, start, end));
        let shape = self.emit.concat((batch, [count], rest), 0);
        Ok(self.emit.op("Reshape", (apart, shape)))
    }

    /// Writes how much each key concerns each query, which an output may have.
    fn scores(&self, queries: &Heads, keys: &Heads) -> Result<String, Why> {
        let scale = match (self.number_given("scale")?, queries.size) {
            (Some(scale), _) => self.number(scale),
            (None, Some(size)) => self.number((size as f32).sqrt().recip()),
            (None, None) => {
                let size = self.emit.sizes(&queries.value, 3, 4);
                let root = self.emit.op("Sqrt", self.emit.cast(size, FLOAT));
                let scale = self.emit.op("Reciprocal", root);
                self.emit.op("CastLike", (scale, &queries.value))
            }
        };
        let keys = self.repeated(keys, queries.count)?;
        let scaled = self.emit.op("Mul", (&queries.value, scale));
        let keys = self.emit.transpose(&keys, &[0, 1, 3, 2]);
        let mut scores = self.emit.op("MatMul", (scaled, keys));
        self.output_scores(0, &scores)?;
        if let Some(cap) = self.number_given("softcap")? {
            let cap = self.number(cap);
            let part = self.emit.op("Div", (&scores, &cap));
            scores = self.emit.op("Mul", (self.emit.op("Tanh", part), cap));
        }
        self.output_scores(1, &scores)?;
        Ok(scores)
    }

    /// Outputs what the last output has in a mode.
    fn output_scores(&self, mode: i64, value: &str) -> Result<(), Why> {
        let wanted = self.node.output.get(3).filter(|it| !it.is_empty());
        if let Some(wanted) = wanted
            && self.int("qk_matmul_output_mode", 0)? == mode
        {
            self.emit.same(wanted, value);
        }
        Ok(())
    }

    /// Writes the share of each key in each query.
    fn probabilities(
        &self,
        queries: &Heads,
        keys: &Heads,
        mut scores: String,
    ) -> Result<String, Why> {
        let mask = self.mask()?;
        let allowed = self.allowed(queries, keys, mask.as_ref())?;
        let least = self.number(f32::NEG_INFINITY);
        let bias = mask.filter(|mask| !mask.is_truth).map(|mask| mask.value);
        if let Some(bias) = &bias {
            scores = self.emit.op("Add", (&scores, bias));
        }
        if let Some(allowed) = &allowed.keys {
            scores = self.emit.op("Where", (allowed, &scores, &least));
        }
        self.output_scores(2, &scores)?;
        let precision = self.int("softmax_precision", 0)?;
        let mut shares = if precision == 0 {
            self.emit.with("Softmax", &scores, [model::int("axis", -1)])
        } else {
            let wide = self
                .emit
                .with("Cast", &scores, [model::int("to", precision)]);
            let shares = self.emit.with("Softmax", wide, [model::int("axis", -1)]);
            self.emit.op("CastLike", (shares, &queries.value))
        };
        if bias.is_some() || allowed.may_be_none {
            let zero = self.number(0.0);
            let mut seen = bias.unwrap_or_else(|| zero.clone());
            if let Some(allowed) = &allowed.keys {
                seen = self.emit.op("Where", (allowed, seen, &least));
            }
            let most = self
                .emit
                .with("ReduceMax", (seen, [-1]), [model::int("keepdims", 1)]);
            let is_blind = self.emit.op("Equal", (most, least));
            shares = self.emit.op("Where", (is_blind, zero, shares));
        }
        self.output_scores(3, &shares)?;
        Ok(shares)
    }

    /// The mask that is given, for all keys: one that is shorter excludes the last ones.
    fn mask(&self) -> Result<Option<Mask>, Why> {
        let Some(name) = self.node.input(3) else {
            return Ok(None);
        };
        let code = types::of(self.scope, name).ok_or("the type of its mask is not known")?;
        let rank = sizes::rank(self.scope, name).ok_or("the axes of its mask are not known")?;
        let mut mask = Mask {
            value: name.to_owned(),
            is_truth: code == BOOL,
        };
        let length = rank.checked_sub(1).and_then(|last| self.size(3, last));
        let [new, past] = [self.size(1, self.rank(1)? - 2), self.size(4, 2)];
        let all = match self.node.input(4) {
            Some(_) => new.zip(past).map(|(new, past)| new + past),
            None => new,
        };
        if let (Some(length), Some(all)) = (length, all)
            && length < all
        {
            let mut pads = vec![0; 2 * rank];
            pads[2 * rank - 1] = all - length;
            let excluded = match mask.is_truth {
                true => self.emit.zero_like(self.scope, name),
                false => self.number(f32::NEG_INFINITY),
            };
            mask.value = self.emit.op("Pad", (mask.value, &*pads, excluded));
        }
        Ok(Some(mask))
    }

    /// Writes the keys that each query may see.
    fn allowed(&self, queries: &Heads, keys: &Heads, mask: Option<&Mask>) -> Result<Allowed, Why> {
        let truth = mask.filter(|mask| mask.is_truth);
        let mut conditions = Vec::from_iter(truth.map(|mask| mask.value.clone()));
        let mut may_be_none = truth.is_some();
        let bound = |name: &str| self.int(name, -1).map(|it| (it >= 0).then_some(it));
        let (left, mut right) = (bound("left_window_size")?, bound("right_window_size")?);
        if self.int("is_causal", 0)? != 0 {
            right = Some(0);
        }
        let lengths = self.node.input(6);
        if left.is_some() || right.is_some() || lengths.is_some() {
            let key = self.positions(&keys.value);
            if let Some(lengths) = lengths {
                may_be_none = true;
                let lengths = self.emit.unsqueeze(lengths, &[1, 2, 3]);
                conditions.push(self.emit.op("Less", (&key, lengths)));
            }
            if left.is_some() || right.is_some() {
                let query = self.positions(&queries.value);
                let query = self.emit.unsqueeze(&query, &[1]);
                let place = self.place(queries, query, lengths);
                if let Some(right) = right {
                    let last = self.moved(&place, right);
                    conditions.push(self.emit.op("LessOrEqual", (&key, last)));
                }
                if let Some(left) = left {
                    may_be_none = true;
                    let first = self.moved(&place, -left);
                    conditions.push(self.emit.op("GreaterOrEqual", (&key, first)));
                }
            }
        }
        let all = conditions.into_iter();
        let keys = all.reduce(|all, it| self.emit.op("And", (all, it)));
        Ok(Allowed { keys, may_be_none })
    }

    /// Writes the numbers of the positions of queries or keys.
    fn positions(&self, heads: &str) -> String {
        let count = self.emit.size(heads, 2);
        self.emit.op("Range", (0, count, 1))
    }

    /// Writes the places of queries among the keys: behind those of earlier positions.
    fn place(&self, queries: &Heads, query: String, lengths: Option<&str>) -> String {
        if let Some(past) = self.node.input(4) {
            self.emit.op("Add", (query, self.emit.sizes(past, 2, 3)))
        } else if let Some(lengths) = lengths {
            let count = self.emit.sizes(&queries.value, 2, 3);
            let past = self.emit.op("Sub", (lengths, count));
            let past = self.emit.unsqueeze(&past, &[1, 2, 3]);
            self.emit.op("Add", (query, past))
        } else {
            query
        }
    }

    /// Adds a number to places.
    fn moved(&self, place: &str, by: i64) -> String {
        if by == 0 {
            return place.to_owned();
        }
        self.emit.op("Add", (place, by))
    }
}

/// A mask for queries and keys: whether one may see the other, or a summand of their score.
struct Mask {
    value: String,
    is_truth: bool,
}

/// The keys that queries may see.
struct Allowed {
    /// The condition, unless it is always true.
    keys: Option<String>,
    /// Whether a query may see none.
    may_be_none: bool,
}
