//! How memory is read ahead, and how it is written.

pub(crate) mod copy_queue;
pub(crate) mod direction;
pub(crate) mod non_temporal;
pub(crate) mod prefetch;
pub(crate) mod store_policy;
pub(crate) mod swap_queue;
pub(crate) mod width;

/// A cache line, the unit that non-temporal stores write.
pub(crate) const LINE: usize = 64;

/// The bytes of a cache line, where one starts.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [u8; LINE]);
