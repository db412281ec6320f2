//! What tract computes as well, but slower: with the same results, by vectors and in few loops.

pub(crate) mod by_rows;
pub(crate) mod casts;
pub(crate) mod convolutions;
pub(crate) mod rows;
pub(crate) mod sliding;
pub(crate) mod softmax;
