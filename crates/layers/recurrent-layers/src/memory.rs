//! Memory that may not be there.
//!
//! Rust ends the process if an allocation fails, and the sizes are a model's or a caller's. So room is
//! made before it is used, and a lack of memory is an error.

use num_traits::Zero;

use crate::error::{Error, count};

/// Makes room for an array of this shape in an empty vector.
fn reserve<T>(vector: &mut Vec<T>, shape: &[usize]) -> Result<usize, Error> {
    let count = count(shape).unwrap_or(usize::MAX);
    let reserved = vector.try_reserve(count);
    reserved.map_err(|_| Error::OutOfMemory {
        bytes: count.saturating_mul(size_of::<T>()),
    })?;
    Ok(count)
}

/// Empties a vector, and makes room for an array of this shape.
pub(crate) fn clear<T>(vector: &mut Vec<T>, shape: &[usize]) -> Result<(), Error> {
    vector.clear();
    reserve(vector, shape).map(|_| ())
}

/// Makes a vector an array of this shape, of zeros.
pub(crate) fn clear_to_zeros<T: Zero + Clone>(
    vector: &mut Vec<T>,
    shape: &[usize],
) -> Result<(), Error> {
    vector.clear();
    let count = reserve(vector, shape)?;
    vector.resize(count, T::zero());
    Ok(())
}

/// Returns an array of this shape, of zeros.
pub(crate) fn zeros<T: Zero + Clone>(shape: &[usize]) -> Result<Vec<T>, Error> {
    let mut made = vec![];
    clear_to_zeros(&mut made, shape)?;
    Ok(made)
}

/// Returns so many items in a vector.
pub(crate) fn collect<T>(len: usize, items: impl Iterator<Item = T>) -> Result<Vec<T>, Error> {
    let mut made = vec![];
    reserve(&mut made, &[len])?;
    made.extend(items);
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn more_than_there_is_is_an_error_with_its_size() {
        let error = zeros::<f32>(&[1 << 40, 1 << 20]).unwrap_err();
        assert_eq!(error, Error::OutOfMemory { bytes: 1 << 62 });
        let error = zeros::<f32>(&[1 << 40, 1 << 40]).unwrap_err();
        assert_eq!(error, Error::OutOfMemory { bytes: usize::MAX });
        assert_eq!(zeros::<f64>(&[1 << 40, 1 << 40, 0]), Ok(vec![]));
        assert_eq!(zeros(&[2, 1]), Ok(vec![0_f32; 2]));
    }
}
