//! Numbers as constants that the compiler knows.

/// Runs `$body` with the constant `$NAME` as `$value`, which is one of some.
macro_rules! with_const {
    ($value:expr, $NAME:ident in [$($each:literal),*] else $last:literal => $body:expr) => {
        match $value {
            $($each => {
                const $NAME: usize = $each;
                $body
            })*
            _ => {
                const $NAME: usize = $last;
                $body
            }
        }
    };
}

pub(crate) use with_const;
