//! Equality of operators, which tract uses to merge nodes.
//!
//! tract keeps one of two nodes whose operators are equal and which read the same inputs. That is
//! right for plain parameters, and wrong where an operator stands for one place in a graph.

/// Makes operators of a type never equal: tract would merge nodes that hold models, states or a
/// place.
macro_rules! never_equal {
    ($op:ty $(, $parameter:ident)?) => {
        impl$(<$parameter>)? PartialEq for $op {
            fn eq(&self, _other: &Self) -> bool {
                false
            }
        }

        impl$(<$parameter>)? Eq for $op {}
    };
}
