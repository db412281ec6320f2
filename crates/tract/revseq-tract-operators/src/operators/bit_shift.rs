//! BitShift by any number of bits. tract's takes the lowest bits of that number alone, as processors do.
//!
//! ```text
//! BitShift<RIGHT>(-8, 33), of int32  →  -1; tract shifts by 1, which gives -4
//! ```

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_hir::internal::*;

use super::mod_::{common_type, each};
use crate::operator::{Parsed, Wiring, own};
use crate::typed_op::{Stateless, Typed, broadcast_facts};

/// Parses a BitShift.
pub(crate) fn parse(_ctx: &ParsingContext<'_>, node: &NodeProto) -> Parsed {
    let direction = match node.get_attr::<&str>("direction")? {
        "LEFT" => Direction::Left,
        "RIGHT" => Direction::Right,
        other => bail!("its direction is {other:?}, expected \"LEFT\" or \"RIGHT\""),
    };
    own(node, [2, 1], move |node: &mut Wiring<'_>| {
        let datum_type = common_type(node.input(0)?.datum_type, node.input(1)?.datum_type)?;
        let datum_type = match datum_type.is_tdim() {
            true => i64::datum_type(),
            false => datum_type,
        };
        node.whole(Typed(Shift {
            direction,
            datum_type,
        }))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Direction {
    Left,
    Right,
}

/// Integers whose bits are shifted: out of them if they are too many, and by none that is negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shift {
    direction: Direction,
    datum_type: DatumType,
}

impl Stateless for Shift {
    const NAME: &str = "BitShift";

    fn eval(&self, _ctx: &EvalContext<'_>, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let inputs = [&*inputs[0], &*inputs[1]];
        macro_rules! integers {
            ($($name:ident $type:ty),*) => {
                match self.datum_type {
                    $(DatumType::$name => each(inputs, |integer: &$type, &by: &$type| {
                        let by = u32::try_from(by).ok().filter(|by| *by < <$type>::BITS);
                        Ok(match (self.direction, by) {
                            (Direction::Left, Some(by)) => integer << by,
                            (Direction::Left, None) => 0,
                            (Direction::Right, Some(by)) => integer >> by,
                            // The sign alone is left.
                            (Direction::Right, None) => integer >> (<$type>::BITS - 1) >> 1,
                        })
                    }),)*
                    other => bail!("it is of {other:?}, expected integers"),
                }
            };
        }
        let shifted = integers!(
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64
        )?;
        Ok(tvec!(shifted.into_tvalue()))
    }

    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        broadcast_facts(self.datum_type, inputs)
    }
}
