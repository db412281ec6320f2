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

use super::known_size;
use crate::emit::Emit;
use crate::model::{self, BOOL, FLOAT, NodeProto};
use crate::pass::{Context, Pass, Verdict};
use crate::scope::{Names, Scope};
use crate::sizes;
use crate::types;

pub(super) const PASS: Pass = Pass::rounding(
    "attention",
    "Attention, to products of matrices and Softmax",
    find,
);

fn find(scope: &Scope<'_>, index: usize, _context: &Context<'_>, names: &mut Names) -> Verdict {
    let node = &scope.nodes[index];
    let Some(output) = node.output.first() else {
        return Verdict::Other;
    };
    if !node.is("Attention") {
        return Verdict::Other;
    }
    let mut attention = Attention {
        scope,
        node,
        emit: Emit::new(output, scope.opset, names),
    };
    match attention.write(output) {
        Ok(()) => attention.emit.finish("products and Softmax".to_owned()),
        Err(why) => Verdict::Left(why.to_owned()),
    }
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
    fn write(&mut self, output: &str) -> Result<(), Why> {
        let given = [self.int("q_num_heads", 0)?, self.int("kv_num_heads", 0)?];
        let is_flat = self.rank(0)? == 3;
        let queries = self.heads(0, given[0])?;
        let keys = self.heads(1, given[1])?;
        let values = self.heads(2, given[1])?;
        let keys = self.with_past(keys, 4, 1)?;
        let values = self.with_past(values, 5, 2)?;
        let scores = self.scores(&queries, &keys)?;
        let probabilities = self.probabilities(&queries, &keys, scores)?;
        let values = self.repeated(&values, queries.count)?;
        if !is_flat {
            let operands = [probabilities.as_str(), &values.value];
            self.emit.write(&[output], "MatMul", &operands, vec![]);
            return Ok(());
        }
        let product = self.emit.plain("MatMul", &[&probabilities, &values.value]);
        let by_position = vec![model::ints("perm", &[0, 2, 1, 3])];
        let product = self.emit.op("Transpose", &[&product], by_position);
        let width = match values.size {
            Some(size) => self.emit.ints(&[queries.count * size]),
            None => {
                let (size, count) = (self.sizes(&values.value, 3, 4), &[queries.count]);
                let count = self.emit.ints(count);
                self.emit.plain("Mul", &[&size, &count])
            }
        };
        let outer = self.sizes(&product, 0, 2);
        let shape = self.joined(&[&outer, &width]);
        self.emit
            .write(&[output], "Reshape", &[&product, &shape], vec![]);
        Ok(())
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

    /// Writes some sizes of a value.
    fn sizes(&mut self, value: &str, start: i64, end: i64) -> String {
        let range = vec![model::int("start", start), model::int("end", end)];
        self.emit.op("Shape", &[value], range)
    }

    /// Joins vectors.
    fn joined(&mut self, parts: &[&str]) -> String {
        self.emit.op("Concat", parts, vec![model::int("axis", 0)])
    }

    /// A scalar of the queries' type.
    fn number(&mut self, value: f32) -> String {
        let queries = self.node.input(0).unwrap_or_default().to_owned();
        let number = self.emit.tensor(model::float_scalar(value));
        match types::of(self.scope, &queries) {
            Some(FLOAT) => number,
            _ => self.emit.plain("CastLike", &[&number, &queries]),
        }
    }

    /// Takes an input apart into its heads.
    fn heads(&mut self, input: usize, given: i64) -> Result<Heads, Why> {
        let value = self.node.input(input).unwrap_or_default().to_owned();
        match self.rank(input)? {
            4 => Ok(Heads {
                value,
                count: self
                    .size(input, 1)
                    .ok_or("its number of heads is not known")?,
                size: self.size(input, 3),
            }),
            3 if given > 0 => {
                let width = self.size(input, 2);
                if width.is_some_and(|width| width % given != 0) {
                    return Err("the width of an input is no multiple of its heads");
                }
                let size = width.map(|width| width / given);
                let outer = self.sizes(&value, 0, 2);
                let count = self.emit.ints(&[given]);
                let of_head = match size {
                    Some(size) => self.emit.ints(&[size]),
                    None => {
                        let width = self.sizes(&value, 2, 3);
                        self.emit.plain("Div", &[&width, &count])
                    }
                };
                let shape = self.joined(&[&outer, &count, &of_head]);
                let value = self.emit.plain("Reshape", &[&value, &shape]);
                let by_head = vec![model::ints("perm", &[0, 2, 1, 3])];
                Ok(Heads {
                    value: self.emit.op("Transpose", &[&value], by_head),
                    count: given,
                    size,
                })
            }
            3 => Err("its inputs have three axes, and it names no number of heads"),
            _ => Err("its inputs have neither three axes nor four"),
        }
    }

    /// Puts the keys or values of earlier positions in front, which an output has, too.
    fn with_past(&mut self, heads: Heads, input: usize, output: usize) -> Result<Heads, Why> {
        let present = self.node.output.get(output).filter(|it| !it.is_empty());
        let Some(past) = self.node.input(input) else {
            if let Some(present) = present {
                self.emit.same(present, &heads.value);
            }
            return Ok(heads);
        };
        let value = match present {
            Some(present) => present.clone(),
            None => self.emit.name("present"),
        };
        let parts = [past, &heads.value];
        let axis = vec![model::int("axis", 2)];
        self.emit.write(&[&value], "Concat", &parts, axis);
        Ok(Heads { value, ..heads })
    }

    /// Repeats each head for the queries that share it.
    fn repeated(&mut self, heads: &Heads, count: i64) -> Result<Heads, Why> {
        let mut value = heads.value.clone();
        if heads.count != count {
            if heads.count <= 0 || count % heads.count != 0 {
                return Err("the number of its queries' heads is no multiple of that of its keys");
            }
            let apart = self.emit.unsqueeze(&value, &[2]);
            let times = self.emit.ints(&[1, 1, count / heads.count, 1, 1]);
            let apart = self.emit.plain("Expand", &[&apart, &times]);
            let (batch, rest) = (self.sizes(&value, 0, 1), self.sizes(&value, 2, 4));
            let count = self.emit.ints(&[count]);
            let shape = self.joined(&[&batch, &count, &rest]);
            value = self.emit.plain("Reshape", &[&apart, &shape]);
        }
        Ok(Heads {
            value,
            count,
            size: heads.size,
        })
    }

    /// Writes how much each key concerns each query, which an output may have.
    fn scores(&mut self, queries: &Heads, keys: &Heads) -> Result<String, Why> {
        let scale = match (self.number_given("scale")?, queries.size) {
            (Some(scale), _) => self.number(scale),
            (None, Some(size)) => self.number((size as f32).sqrt().recip()),
            (None, None) => {
                let size = self.sizes(&queries.value, 3, 4);
                let size = self
                    .emit
                    .op("Cast", &[&size], vec![model::int("to", FLOAT.into())]);
                let root = self.emit.plain("Sqrt", &[&size]);
                let scale = self.emit.plain("Reciprocal", &[&root]);
                self.emit.plain("CastLike", &[&scale, &queries.value])
            }
        };
        let keys = self.repeated(keys, queries.count)?;
        let scaled = self.emit.plain("Mul", &[&queries.value, &scale]);
        let columns = vec![model::ints("perm", &[0, 1, 3, 2])];
        let keys = self.emit.op("Transpose", &[&keys.value], columns);
        let mut scores = self.emit.plain("MatMul", &[&scaled, &keys]);
        self.output_scores(0, &scores)?;
        if let Some(cap) = self.number_given("softcap")? {
            let cap = self.number(cap);
            let part = self.emit.plain("Div", &[&scores, &cap]);
            let part = self.emit.plain("Tanh", &[&part]);
            scores = self.emit.plain("Mul", &[&part, &cap]);
        }
        self.output_scores(1, &scores)?;
        Ok(scores)
    }

    /// Outputs what the last output has in a mode.
    fn output_scores(&mut self, mode: i64, value: &str) -> Result<(), Why> {
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
        &mut self,
        queries: &Heads,
        keys: &Heads,
        mut scores: String,
    ) -> Result<String, Why> {
        let mask = self.mask()?;
        let allowed = self.allowed(queries, keys, mask.as_ref())?;
        let least = self.number(f32::NEG_INFINITY);
        let bias = mask.filter(|mask| !mask.is_truth).map(|mask| mask.value);
        if let Some(bias) = &bias {
            scores = self.emit.plain("Add", &[&scores, bias]);
        }
        if let Some(allowed) = &allowed.keys {
            scores = self.emit.plain("Where", &[allowed, &scores, &least]);
        }
        self.output_scores(2, &scores)?;
        let precision = self.int("softmax_precision", 0)?;
        let last = vec![model::int("axis", -1)];
        let mut shares = if precision == 0 {
            self.emit.op("Softmax", &[&scores], last)
        } else {
            let wide = vec![model::int("to", precision)];
            let wide = self.emit.op("Cast", &[&scores], wide);
            let shares = self.emit.op("Softmax", &[&wide], last);
            self.emit.plain("CastLike", &[&shares, &queries.value])
        };
        if bias.is_some() || allowed.may_be_none {
            let zero = self.number(0.0);
            let mut seen = bias.unwrap_or_else(|| zero.clone());
            if let Some(allowed) = &allowed.keys {
                seen = self.emit.plain("Where", &[allowed, &seen, &least]);
            }
            let (axis, kept) = (self.emit.ints(&[-1]), vec![model::int("keepdims", 1)]);
            let most = self.emit.op("ReduceMax", &[&seen, &axis], kept);
            let is_blind = self.emit.plain("Equal", &[&most, &least]);
            shares = self.emit.plain("Where", &[&is_blind, &zero, &shares]);
        }
        self.output_scores(3, &shares)?;
        Ok(shares)
    }

    /// The mask that is given, for all keys: one that is shorter excludes the last ones.
    fn mask(&mut self) -> Result<Option<Mask>, Why> {
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
            let pads = self.emit.ints(&pads);
            let excluded = match mask.is_truth {
                true => self.emit.zero_like(self.scope, name),
                false => self.number(f32::NEG_INFINITY),
            };
            mask.value = self.emit.plain("Pad", &[&mask.value, &pads, &excluded]);
        }
        Ok(Some(mask))
    }

    /// Writes the keys that each query may see.
    fn allowed(
        &mut self,
        queries: &Heads,
        keys: &Heads,
        mask: Option<&Mask>,
    ) -> Result<Allowed, Why> {
        let truth = mask.filter(|mask| mask.is_truth);
        let mut conditions: Vec<String> =
            truth.map(|mask| mask.value.clone()).into_iter().collect();
        let mut may_be_none = truth.is_some();
        let bound = |name: &str| self.int(name, -1).map(|it| (it >= 0).then_some(it));
        let (left, mut right) = (bound("left_window_size")?, bound("right_window_size")?);
        if self.int("is_causal", 0)? != 0 {
            right = Some(0);
        }
        let lengths = self.node.input(6).map(str::to_owned);
        if left.is_some() || right.is_some() || lengths.is_some() {
            let key = self.positions(&keys.value);
            if let Some(lengths) = &lengths {
                may_be_none = true;
                let lengths = self.emit.unsqueeze(lengths, &[1, 2, 3]);
                conditions.push(self.emit.plain("Less", &[&key, &lengths]));
            }
            if left.is_some() || right.is_some() {
                let query = self.positions(&queries.value);
                let query = self.emit.unsqueeze(&query, &[1]);
                let place = self.place(queries, query, lengths.as_deref());
                if let Some(right) = right {
                    let last = self.moved(&place, right);
                    conditions.push(self.emit.plain("LessOrEqual", &[&key, &last]));
                }
                if let Some(left) = left {
                    may_be_none = true;
                    let first = self.moved(&place, -left);
                    conditions.push(self.emit.plain("GreaterOrEqual", &[&key, &first]));
                }
            }
        }
        let all = conditions.into_iter();
        let keys = all.reduce(|all, it| self.emit.plain("And", &[&all, &it]));
        Ok(Allowed { keys, may_be_none })
    }

    /// Writes the numbers of the positions of queries or keys.
    fn positions(&mut self, heads: &str) -> String {
        let count = self.sizes(heads, 2, 3);
        let count = self.emit.squeeze(&count, &[0]);
        let (zero, one) = (self.emit.scalar(0), self.emit.scalar(1));
        self.emit.plain("Range", &[&zero, &count, &one])
    }

    /// Writes the places of queries among the keys: behind those of earlier positions.
    fn place(&mut self, queries: &Heads, query: String, lengths: Option<&str>) -> String {
        if let Some(past) = self.node.input(4) {
            let past = self.sizes(past, 2, 3);
            self.emit.plain("Add", &[&query, &past])
        } else if let Some(lengths) = lengths {
            let count = self.sizes(&queries.value, 2, 3);
            let past = self.emit.plain("Sub", &[lengths, &count]);
            let past = self.emit.unsqueeze(&past, &[1, 2, 3]);
            self.emit.plain("Add", &[&query, &past])
        } else {
            query
        }
    }

    /// Adds a number to places.
    fn moved(&mut self, place: &str, by: i64) -> String {
        if by == 0 {
            return place.to_owned();
        }
        let by = self.emit.scalar(by);
        self.emit.plain("Add", &[place, &by])
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
