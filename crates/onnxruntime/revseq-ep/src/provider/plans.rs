//! The plans of a node: made once for a shape, cached for the most recent shapes.

use std::ffi::c_int;
use std::sync::Arc;

use revseq_graph::{ElementType, LruCache, Operator, TensorType};
use revseq_kernels::Plan;
use smallvec::SmallVec;

use super::error::Error;
use super::node::{ATTRIBUTES, operator};
use crate::plugin::info::KernelInfo;
use crate::plugin::node::TypeAndSizes;

/// A tensor's element type and sizes, as ONNX Runtime has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape<'a> {
    /// Its `ONNXTensorElementDataType`.
    pub(crate) element: c_int,
    /// Its sizes in elements.
    pub(crate) sizes: &'a [i64],
}

impl<'a> Shape<'a> {
    /// Returns the shape of an input in the model, if all of it is known.
    fn declared(input: &'a Option<TypeAndSizes>) -> Option<Self> {
        let input = input.as_ref()?;
        let sizes = input.sizes.as_deref()?;
        sizes.iter().all(|&size| size >= 0).then_some(Self {
            element: input.element,
            sizes,
        })
    }
}

/// The plan for inputs of these types and sizes.
#[derive(Debug)]
pub(crate) struct Planned {
    inputs: [(c_int, SmallVec<[i64; 6]>); 2],
    pub(crate) plan: Plan,
}

impl Planned {
    #[inline]
    fn is_for(&self, inputs: [Shape<'_>; 2]) -> bool {
        let mut pairs = self.inputs.iter().zip(inputs);
        pairs.all(|((element, sizes), input)| {
            *element == input.element && sizes.as_slice() == input.sizes
        })
    }
}

/// A node with its cached plans.
#[derive(Debug)]
pub(crate) struct Plans {
    node: String,
    operator: Operator,
    /// The plan for the shape that the model declares, if it does.
    known: Option<Planned>,
    /// The plans of other recent shapes.
    recent: LruCache<Planned>,
}

impl Plans {
    /// Reads the node of a kernel, and plans it if the model declares its shape.
    ///
    /// # Errors
    /// A violation of the schema, naming the node.
    pub(super) fn of(info: KernelInfo<'_>, name: String) -> Result<Self, Error> {
        let node = info.node(name, &ATTRIBUTES)?;
        let operator = operator(&node)?;
        let mut plans = Self::new(node.name, operator);
        if let [(_, data), (_, lengths)] = node.inputs.as_slice()
            && let (Some(data), Some(lengths)) = (Shape::declared(data), Shape::declared(lengths))
        {
            plans.plan_known([data, lengths])?;
        }
        Ok(plans)
    }

    fn new(node: String, operator: Operator) -> Self {
        Self {
            node,
            operator,
            known: None,
            recent: LruCache::default(),
        }
    }

    /// The node's name in messages.
    pub(super) fn label(&self) -> String {
        format!("{} node {:?}", self.operator.op_type(), self.node)
    }

    /// The node's operator.
    pub(crate) fn operator(&self) -> Operator {
        self.operator
    }

    /// Plans the shape that the model says.
    fn plan_known(&mut self, inputs: [Shape<'_>; 2]) -> Result<(), Error> {
        self.known = Some(self.plan(inputs)?);
        Ok(())
    }

    /// Runs `run` with the plan for inputs of these types and sizes.
    ///
    /// # Errors
    /// A violation of the schema, or the error of `run`.
    #[inline]
    pub(crate) fn with<T>(
        &self,
        inputs: [Shape<'_>; 2],
        run: impl FnOnce(&Planned) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match &self.known {
            Some(known) if known.is_for(inputs) => run(known),
            _ => run(&*self.recent(inputs)?),
        }
    }

    /// The plan that was made for these inputs recently, or a new one.
    fn recent(&self, inputs: [Shape<'_>; 2]) -> Result<Arc<Planned>, Error> {
        let is_wanted = |planned: &Planned| planned.is_for(inputs);
        self.recent
            .get_or_try_insert(is_wanted, || self.plan(inputs))
    }

    #[cold]
    fn plan(&self, inputs: [Shape<'_>; 2]) -> Result<Planned, Error> {
        let planned = self.plan_unnamed(inputs);
        planned.map_err(|error| error.of_node(self.label()))
    }

    fn plan_unnamed(&self, inputs: [Shape<'_>; 2]) -> Result<Planned, Error> {
        let names = self.operator.input_names();
        let mut sizes: [SmallVec<[u64; 6]>; 2] = Default::default();
        let mut types = [ElementType::String; 2];
        for (index, input) in inputs.into_iter().enumerate() {
            types[index] = match ElementType::from_onnx_code(input.element) {
                Some(element_type @ ElementType::Fixed(_)) => element_type,
                other => {
                    return Err(Error::ElementType {
                        input: names[index],
                        actual: match other {
                            Some(element_type) => element_type.to_string(),
                            None => input.element.to_string(),
                        },
                    });
                }
            };
            sizes[index] = input.sizes.iter().map(|&size| size.max(0) as u64).collect();
        }
        let [data, lengths] = [0, 1].map(|index| TensorType {
            element_type: types[index],
            sizes: &sizes[index],
        });
        let desc = self.operator.lower(&self.node, data, lengths)?;
        Ok(Planned {
            inputs: inputs.map(|input| (input.element, input.sizes.into())),
            plan: Plan::new(&desc)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: c_int = 1;
    const INT64: c_int = 7;

    fn plans() -> Plans {
        let operator = Operator::ReverseSequence {
            batch_axis: 0,
            time_axis: 1,
        };
        Plans::new(String::from("n"), operator)
    }

    fn inputs<'a>(data: &'a [i64], lengths: &'a [i64]) -> [Shape<'a>; 2] {
        [(FLOAT, data), (INT64, lengths)].map(|(element, sizes)| Shape { element, sizes })
    }

    fn bytes(plans: &Plans, data: &[i64], lengths: &[i64]) -> Result<usize, Error> {
        plans.with(inputs(data, lengths), |planned| {
            Ok(planned.plan.input_bytes())
        })
    }

    #[test]
    fn each_shape_gets_its_own_plan() {
        let mut plans = plans();
        plans.plan_known(inputs(&[2, 3], &[2])).unwrap();
        for _ in 0..2 {
            assert_eq!(bytes(&plans, &[2, 3], &[2]), Ok(24));
            assert_eq!(bytes(&plans, &[2, 5], &[2]), Ok(40));
            assert_eq!(bytes(&plans, &[4, 5], &[4]), Ok(80));
            assert_eq!(bytes(&plans, &[0, 5], &[0]), Ok(0));
        }
    }

    /// The number of plans made for shapes in sequence: a plan in use cannot share
    /// another's address.
    fn distinct(plans: &Plans, sizes: &[i64], at: &mut Vec<*const Plan>) -> usize {
        let Some((&time, rest)) = sizes.split_first() else {
            at.sort();
            at.dedup();
            return at.len();
        };
        let run = |planned: &Planned| {
            assert_eq!(planned.plan.input_bytes() as i64, 2 * time * 4);
            at.push(&raw const planned.plan);
            Ok(distinct(plans, rest, at))
        };
        plans.with(inputs(&[2, time], &[2]), run).unwrap()
    }

    #[test]
    fn shapes_that_alternate_are_planned_once() {
        let mut plans = plans();
        plans.plan_known(inputs(&[2, 3], &[2])).unwrap();
        assert_eq!(distinct(&plans, &[4, 5, 4, 5, 4, 5], &mut vec![]), 2);
        assert_eq!(
            distinct(&plans, &[3, 4, 3, 5, 6, 7, 4, 5, 6, 7, 3], &mut vec![]),
            5
        );
    }

    #[test]
    fn a_schema_violation_names_the_node() {
        let error = bytes(&plans(), &[2, 3], &[3]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ReverseSequence node \"n\": input \"sequence_lens\" has size 3 in dimension 0, expected 2"
        );
    }

    #[test]
    fn strings_have_no_plan() {
        let string = Shape {
            element: 8,
            sizes: &[2, 3],
        };
        let [_, lengths] = inputs(&[2, 3], &[2]);
        let error = plans().with([string, lengths], |_| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "ReverseSequence node \"n\": input \"input\" has elements of type string, expected a \
             type of fixed size"
        );
    }
}
