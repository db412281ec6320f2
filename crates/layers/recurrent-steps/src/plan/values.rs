//! The primitives that make values.

use recurrent_layers::PackedMatrix;

use super::planner::Planner;
use super::value::{Value, broadcast, count};
use super::{Buffer, Data, Needs, Operation, Primitive, Source};
use crate::body::Constant;
use crate::elements::{Kind, Lane};
use crate::error::{Error, values};
use crate::function::{Float2, Function, Int1, Reduction};
use crate::kernels::zeros;
use crate::known::{Comparison, MOST_KNOWN, Scalar};
use crate::view::{Axis, Base, View, contiguous};

impl Planner<'_> {
    pub(super) fn buffer(&mut self, buffer: Buffer) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    pub(super) fn data(&mut self, data: Data, constant: Option<usize>) -> usize {
        let (lane, len) = match &data {
            Data::Floats(all) => (Lane::Float, all.len()),
            Data::Ints(all) => (Lane::Int, all.len()),
        };
        self.buffer(Buffer {
            lane,
            len,
            source: Source::Data(data, constant),
            needs: Needs::Nothing,
        })
    }

    /// A float of no axes.
    pub(crate) fn float(&mut self, number: f32) -> Value {
        self.floats(&[], vec![number])
    }

    /// Floats with these sizes.
    pub(crate) fn floats(&mut self, sizes: &[usize], numbers: Vec<f32>) -> Value {
        let buffer = self.data(Data::Floats(numbers.into()), None);
        Value::new(Kind::Float, View::whole(Base::Buffer(buffer), sizes))
    }

    /// Numbers that stand in a model, as a constant with this index among those of the body if it is one.
    pub(crate) fn literal(&mut self, constant: &Constant, index: Option<usize>) -> Value {
        if let Data::Ints(all) = &constant.data
            && all.len() <= MOST_KNOWN
        {
            let scalars = all.iter().map(|&it| it.into()).collect();
            return Value::known(constant.kind, &constant.sizes, scalars);
        }
        let buffer = self.data(constant.data.clone(), index);
        let view = View::whole(Base::Buffer(buffer), &constant.sizes);
        Value::new(constant.kind, view)
    }

    /// The only element of a float that is known.
    pub(crate) fn constant_float(&self, value: &Value) -> Option<f32> {
        let view = &value.view;
        match &self.buffers[view.buffer()?].source {
            Source::Data(Data::Floats(all), _) if view.len() == 1 && view.step == 0 => {
                all.get(view.offset as usize).copied()
            }
            _ => None,
        }
    }

    /// The index of the model's constant that a view is of.
    pub(crate) fn constant_index(&self, view: &View) -> Option<usize> {
        // A part that moves with the step is another one in each.
        if view.step != 0 {
            return None;
        }
        match self.buffers[view.buffer()?].source {
            Source::Data(Data::Floats(_), index) => index,
            _ => None,
        }
    }

    /// The matrix of a view of a constant, packed once for all programs.
    pub(crate) fn packed(&self, view: &View) -> Result<PackedMatrix<f32>, Error> {
        let buffer = view.buffer().map(|buffer| &self.buffers[buffer].source);
        let (Some(Source::Data(Data::Floats(all), Some(index))), [rows, columns]) =
            (buffer, &*view.axes)
        else {
            return values("a matrix that is no constant");
        };
        let shape = [rows.size, columns.size];
        self.body
            .packed((*index, view.offset, view.axes.clone()), || {
                let mut elements = zeros(shape[0] * shape[1])?;
                for (to, place) in std::iter::zip(&mut elements, view.places()) {
                    *to = all[place];
                }
                Ok(PackedMatrix::pack(&elements, shape)?)
            })
    }

    /// The column and the row that a matrix, the last two axes, is the product of, if it is one.
    pub(crate) fn outer_product(&self, view: &View) -> Option<(View, View)> {
        let buffer = view.buffer()?;
        let mut writers = self.primitives.iter().filter(|it| it.writes() == buffer);
        let (Some(made), None) = (writers.next(), writers.next()) else {
            return None;
        };
        if !matches!(
            made.operation,
            Operation::Map(Function::Float2(Float2::Mul))
        ) {
            return None;
        }
        // The axes of the product that the view has, but for those of one element.
        let mut open = made
            .output
            .axes
            .iter()
            .enumerate()
            .filter(|(_, it)| it.size != 1);
        let mut places = vec![];
        for axis in &view.axes {
            places.push(match axis.size {
                1 => None,
                _ => Some(open.next().filter(|(_, own)| *own == axis)?.0),
            });
        }
        if open.next().is_some()
            || (view.offset, view.step) != (made.output.offset, made.output.step)
        {
            return None;
        }
        let seen = |from: &View| {
            let axis = |place: &Option<usize>| match place {
                Some(place) => from.axes[*place],
                None => Axis { size: 1, stride: 0 },
            };
            View {
                axes: places.iter().map(axis).collect(),
                ..from.clone()
            }
        };
        let [one, other] = [seen(&made.inputs[0]), seen(&made.inputs[1])];
        let rank = view.rank();
        let is = |view: &View, axis: usize| view.axes[rank - axis].stride == 0;
        let (column, row) = if is(&one, 1) && is(&other, 2) {
            (one, other)
        } else if is(&other, 1) && is(&one, 2) {
            (other, one)
        } else {
            return None;
        };
        Some((
            column.slice(rank - 1, 0, 1, 1),
            row.slice(rank - 2, 0, 1, 1),
        ))
    }

    /// A copy in a buffer of its own, which primitives may change.
    pub(crate) fn own_copy(&mut self, value: &Value) -> Result<Value, Error> {
        let whole = self.parts(value.kind, &value.sizes())?;
        let from = self.materialised(value)?;
        let moved = Operation::moved(value.kind);
        self.add_to(moved, vec![from], whole.view.clone());
        Ok(whole)
    }

    /// Whether it is the same in all steps.
    pub(crate) fn is_fixed(&self, view: &View) -> bool {
        self.needs(view) == Needs::Nothing
    }

    /// What a view depends on.
    pub(super) fn needs(&self, view: &View) -> Needs {
        let own = view
            .buffer()
            .map_or(Needs::Nothing, |buffer| self.buffers[buffer].needs);
        let moved = if view.step == 0 {
            Needs::Nothing
        } else {
            Needs::Number
        };
        own.max(moved)
    }

    /// Adds a primitive that writes a new buffer with these sizes, and returns a view of it.
    pub(crate) fn add(
        &mut self,
        operation: Operation,
        lane: Lane,
        inputs: Vec<View>,
        sizes: &[usize],
    ) -> Result<View, Error> {
        let own = match operation {
            Operation::Count(_) => Needs::Number,
            _ => Needs::Nothing,
        };
        let mut needs = inputs
            .iter()
            .map(|view| self.needs(view))
            .fold(own, Ord::max);
        // A program runs step by step with what reads its outputs.
        if matches!(operation, Operation::Inner(_)) && needs == Needs::Number {
            needs = Needs::States;
        }
        let buffer = self.buffer(Buffer {
            lane,
            len: count(sizes)?,
            source: Source::Program,
            needs,
        });
        let output = View::whole(Base::Buffer(buffer), sizes);
        self.primitives.push(Primitive {
            operation,
            inputs,
            output: output.clone(),
            is_copy: false,
        });
        Ok(output)
    }

    /// Adds a primitive that writes a part of a buffer, or more of it.
    pub(crate) fn add_to(&mut self, operation: Operation, inputs: Vec<View>, output: View) {
        let needs = inputs.iter().map(|view| self.needs(view)).max();
        if let Some(buffer) = output.buffer() {
            // A place that moves with the step is another one in each.
            let is_own = matches!(self.buffers[buffer].source, Source::Program);
            let place = match is_own && output.step != 0 {
                true => Needs::Number,
                false => Needs::Nothing,
            };
            let own = &mut self.buffers[buffer].needs;
            *own = needs.unwrap_or(Needs::Nothing).max(place).max(*own);
        }
        self.primitives.push(Primitive {
            operation,
            inputs,
            output,
            is_copy: false,
        });
    }

    /// A new buffer that primitives write parts of.
    pub(crate) fn parts(&mut self, kind: Kind, sizes: &[usize]) -> Result<Value, Error> {
        let buffer = self.buffer(Buffer {
            lane: kind.lane(),
            len: count(sizes)?,
            source: Source::Program,
            needs: Needs::Nothing,
        });
        Ok(Value::new(kind, View::whole(Base::Buffer(buffer), sizes)))
    }

    /// A view of memory that has a value's elements.
    pub(crate) fn materialised(&mut self, value: &Value) -> Result<View, Error> {
        let Some(scalars) = value.scalars() else {
            return Ok(value.view.clone());
        };
        let sizes = value.sizes();
        let constants: Option<Vec<i64>> = scalars.iter().map(|it| it.constant()).collect();
        if let Some(constants) = constants {
            let data = match value.kind.lane() {
                Lane::Float => Data::Floats(constants.iter().map(|&it| it as f32).collect()),
                Lane::Int => Data::Ints(constants.into()),
            };
            let buffer = self.data(data, None);
            return Ok(View::whole(Base::Buffer(buffer), &sizes));
        }
        let lines = scalars.iter().map(|it| it.line).collect();
        let counted = self.add(Operation::Count(lines), Lane::Int, vec![], &sizes)?;
        if value.kind != Kind::Bool {
            return Ok(counted);
        }
        // Each is a comparison; constants among them are numbers that are not 0.
        let zero = Value::known(Kind::Int64, &[], vec![0.into()]);
        let counted = Value::new(Kind::Int64, counted);
        let comparison = |it: &Scalar| it.truth.unwrap_or(Comparison::NotEqual);
        let first = comparison(&scalars[0]);
        if scalars.iter().all(|it| comparison(it) == first) {
            let function = Function::CompareInts(first);
            return Ok(self.map(function, Kind::Bool, &[&counted, &zero])?.view);
        }
        let whole = self.parts(Kind::Bool, &[scalars.len()])?;
        let flat = counted.with(View {
            axes: contiguous(&[scalars.len()]),
            ..counted.view.clone()
        });
        for (index, scalar) in scalars.iter().enumerate() {
            let one = flat.with(flat.view.slice(0, index as isize, 1, 1));
            let made = self.map(
                Function::CompareInts(comparison(scalar)),
                Kind::Bool,
                &[&one, &zero],
            )?;
            let to = whole.view.slice(0, index as isize, 1, 1);
            self.add_to(
                Operation::Map(Function::Move(Lane::Float)),
                vec![made.view],
                to,
            );
        }
        Ok(View {
            axes: contiguous(&sizes),
            ..whole.view
        })
    }

    /// A function of elements, broadcast to each other.
    pub(crate) fn map(
        &mut self,
        function: Function,
        kind: Kind,
        inputs: &[&Value],
    ) -> Result<Value, Error> {
        let all: Vec<Vec<usize>> = inputs.iter().map(|value| value.sizes()).collect();
        let sizes = broadcast(all.iter().map(|sizes| &**sizes))?;
        let mut views = Vec::with_capacity(inputs.len());
        for input in inputs {
            views.push(self.materialised(input)?.broadcast(&sizes));
        }
        let view = self.add(Operation::Map(function), kind.lane(), views, &sizes)?;
        let value = Value::new(kind, view);
        let may_overflow = matches!(function, Function::Int1(_) | Function::Int2(_));
        if kind == Kind::Int32 && may_overflow && function != Function::Int1(Int1::Wrap) {
            return self.map(Function::Int1(Int1::Wrap), kind, &[&value]);
        }
        Ok(value)
    }

    /// A reduction along axes, which stay with size 1.
    pub(crate) fn reduce(
        &mut self,
        reduction: Reduction,
        value: &Value,
        axes: &[usize],
    ) -> Result<Value, Error> {
        let sizes = value.sizes();
        let mut kept = sizes.clone();
        for axis in axes {
            kept[*axis] = 1;
        }
        let input = self.materialised(value)?;
        let needs = self.needs(&input);
        let buffer = self.buffer(Buffer {
            lane: value.kind.lane(),
            len: count(&kept)?,
            source: Source::Program,
            needs,
        });
        let output = View::whole(Base::Buffer(buffer), &kept);
        self.primitives.push(Primitive {
            operation: Operation::Reduce(reduction),
            inputs: vec![input],
            output: View {
                axes: std::iter::zip(&sizes, &output.axes)
                    .enumerate()
                    .map(|(index, (&size, axis))| match axes.contains(&index) {
                        true => Axis { size, stride: 0 },
                        false => *axis,
                    })
                    .collect(),
                ..output.clone()
            },
            is_copy: false,
        });
        Ok(value.with(output))
    }

    /// The same elements, one after another in memory.
    pub(crate) fn contiguous(&mut self, value: &Value) -> Result<Value, Error> {
        let view = self.materialised(value)?;
        if view.is_contiguous() {
            return Ok(value.with(view));
        }
        self.copy(&value.with(view))
    }

    /// A copy.
    pub(crate) fn copy(&mut self, value: &Value) -> Result<Value, Error> {
        self.map(Function::Move(value.kind.lane()), value.kind, &[value])
    }

    /// The same elements with other sizes, as many.
    pub(crate) fn reshape(&mut self, value: &Value, sizes: &[usize]) -> Result<Value, Error> {
        if count(sizes)? != value.view.len() {
            return values(format!("sizes {:?} become {sizes:?}", value.sizes()));
        }
        if let Some(view) = value.view.reshape(sizes) {
            return Ok(value.with(view));
        }
        if let Some(scalars) = value.scalars() {
            return Ok(Value::known(value.kind, sizes, scalars));
        }
        let copy = self.contiguous(value)?;
        Ok(copy.with(View {
            axes: contiguous(sizes),
            ..copy.view.clone()
        }))
    }
}
