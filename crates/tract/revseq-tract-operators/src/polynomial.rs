//! Arithmetic with sizes that holds whatever they are.
//!
//! An integer's quotient is rounded towards 0. tract's simplifier rounds some down, and joins a quotient
//! with what is subtracted from it. Here an expression is only returned if it is the exact result: its
//! quotients are of sizes that are not negative, and it is a sum of sizes, for which both ways to round are
//! one, or the sum of products that was asked for, without quotients to join.
//!
//! ```text
//! (N - M) / 3  →  max(N - M, 0) / 3 - max(M - N, 0) / 3
//! N - N / 2    →  no expression: tract makes -(N / 2) of N / 2 - N, so that this would be N / 2
//! ```

use tract_onnx::tract_hir::internal::*;

use crate::dims::is_size;

/// Numbers in expressions of sizes may be added as long as they are less.
const MANY: u64 = 1 << 60;

/// The most products that are added.
const MOST_TERMS: usize = 32;

/// Returns the sum of two expressions of sizes, unless none is exact.
pub(crate) fn sum(a: &TDim, b: &TDim) -> Option<TDim> {
    Polynomial::of(a)?.plus(Polynomial::of(b)?, 1)?.expression()
}

/// The same of the difference.
pub(crate) fn difference(a: &TDim, b: &TDim) -> Option<TDim> {
    let difference = Polynomial::of(a)?.plus(Polynomial::of(b)?, -1)?;
    difference.expression()
}

/// The same of the product.
pub(crate) fn product(a: &TDim, b: &TDim) -> Option<TDim> {
    Polynomial::of(a)?.times(&Polynomial::of(b)?)?.expression()
}

/// The same of the quotient, which is rounded towards 0.
pub(crate) fn quotient(a: &TDim, b: &TDim) -> Option<TDim> {
    if magnitude(a).checked_mul(magnitude(b))? >= MANY {
        return None;
    }
    let (dividend, by) = a.maybe_div(b).ok()?;
    let exact = Polynomial::default().plus(Polynomial::of(a)?, i64::try_from(by).ok()?)?;
    let product = Polynomial::of(&dividend)?.times(&Polynomial::of(b)?)?;
    if !product.is(&exact) {
        return None;
    }
    if by == 1 {
        return Some(dividend);
    }
    if is_size(&dividend) {
        return Some(dividend / by);
    }
    let zero = 0.to_dim();
    let opposite = difference(&zero, &dividend)?;
    if is_size(&opposite) {
        return difference(&zero, &(opposite / by));
    }
    let quotient = |of: &TDim| Some(at_least_0(of)? / by);
    difference(&quotient(&dividend)?, &quotient(&opposite)?)
}

/// The greater of an expression and 0, unless tract rewrites the expression.
fn at_least_0(size: &TDim) -> Option<TDim> {
    let exact = Polynomial::of(size)?;
    let greater = size.clone().maxi(0.to_dim());
    let terms = match &greater {
        TDim::Max(terms) => terms,
        other => std::slice::from_ref(other),
    };
    let is_kept = |term: &TDim| Polynomial::of(term).is_some_and(|it| it.is(&exact));
    let are_kept = terms
        .iter()
        .all(|term| matches!(term, TDim::Val(0)) || is_kept(term));
    are_kept.then_some(greater)
}

/// A bound of the numbers that the simplifier makes of an expression: its greatest number times all of
/// its divisors.
fn magnitude(size: &TDim) -> u64 {
    fn visit(size: &TDim, greatest: &mut u64, divisors: &mut u64) {
        match size {
            TDim::Val(value) => *greatest = value.unsigned_abs().max(*greatest),
            TDim::Sym(_) => {}
            TDim::Add(terms)
            | TDim::Mul(terms)
            | TDim::Max(terms)
            | TDim::Min(terms)
            | TDim::Broadcast(terms) => {
                for term in terms {
                    visit(term, greatest, divisors);
                }
            }
            TDim::MulInt(times, term) => {
                *greatest = times.unsigned_abs().max(*greatest);
                visit(term, greatest, divisors);
            }
            TDim::Div(term, by) => {
                *divisors = divisors.saturating_mul(*by);
                visit(term, greatest, divisors);
            }
            TDim::Ge(a, b) | TDim::Eq(a, b) => {
                visit(a, greatest, divisors);
                visit(b, greatest, divisors);
            }
        }
    }
    let (mut greatest, mut divisors) = (1, 1);
    visit(size, &mut greatest, &mut divisors);
    u64::saturating_mul(greatest, divisors)
}

/// A sum of products, each with a number. Their factors are symbols, and what is neither a sum nor a
/// product, such as quotients.
#[derive(Clone, Debug, Default)]
struct Polynomial(Vec<(Vec<TDim>, i64)>);

impl Polynomial {
    fn of(size: &TDim) -> Option<Self> {
        match size {
            TDim::Val(number) => Some(Self(vec![(vec![], *number)])),
            TDim::Add(terms) => terms
                .iter()
                .try_fold(Self::default(), |sum, term| sum.plus(Self::of(term)?, 1)),
            TDim::MulInt(times, term) => Self::default().plus(Self::of(term)?, *times),
            TDim::Mul(factors) => {
                let one = Self(vec![(vec![], 1)]);
                factors
                    .iter()
                    .try_fold(one, |product, factor| product.times(&Self::of(factor)?))
            }
            other => Some(Self(vec![(vec![other.clone()], 1)])),
        }
    }

    /// Adds another one, times a number.
    fn plus(mut self, other: Self, times: i64) -> Option<Self> {
        for (factors, number) in other.0 {
            let number = number.checked_mul(times)?;
            let mut terms = self.0.iter_mut();
            match terms.find(|(known, _)| are_same(known, &factors)) {
                Some((_, known)) => *known = known.checked_add(number)?,
                None => self.0.push((factors, number)),
            }
        }
        self.0.retain(|(_, number)| *number != 0);
        (self.0.len() <= MOST_TERMS).then_some(self)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (factors, number) in &self.0 {
            let terms = other.0.iter().map(|(others, times)| {
                let factors = [factors.as_slice(), others].concat();
                Some((factors, number.checked_mul(*times)?))
            });
            product = product.plus(Self(terms.collect::<Option<_>>()?), 1)?;
        }
        Some(product)
    }

    fn is(&self, other: &Self) -> bool {
        let has = |(factors, number): &(Vec<TDim>, i64)| {
            let mut terms = other.0.iter();
            terms.any(|(others, times)| times == number && are_same(factors, others))
        };
        self.0.len() == other.0.len() && self.0.iter().all(has)
    }

    /// Whether it subtracts nothing.
    fn adds_sizes(&self) -> bool {
        let is_added =
            |(factors, number): &(Vec<TDim>, i64)| *number >= 0 && factors.iter().all(is_size);
        self.0.iter().all(is_added)
    }

    /// Whether the simplifier may join a quotient with another term, since these have a factor in common: in
    /// this sum, or where it is subtracted. A multiple of a quotient, as in a remainder, stays apart.
    fn joins_quotients(&self) -> bool {
        let is_joined = |at: usize, factor: &TDim| {
            let TDim::Div(dividend, _) = factor else {
                return false;
            };
            let Some(dividend) = Self::of(dividend) else {
                return true;
            };
            let mut parts = dividend.0.iter().flat_map(|(factors, _)| factors);
            let others = self.0.iter().enumerate().filter(|(other, _)| *other != at);
            parts.any(|part| {
                let mut others = others.clone();
                others.any(|(_, (factors, _))| factors.contains(part))
            })
        };
        let numbers = self.0.iter().map(|(_, number)| *number);
        let divisor = numbers.fold(0, greatest_divisor);
        let mut terms = self.0.iter().enumerate();
        terms.any(|(at, (factors, number))| {
            number.abs() == divisor && factors.iter().any(|factor| is_joined(at, factor))
        })
    }

    /// The expression, simplified by tract, if that is exact.
    fn expression(&self) -> Option<TDim> {
        let terms = self.0.iter().map(|(factors, number)| {
            let product = match &**factors {
                [] => return number.to_dim(),
                [factor] => factor.clone(),
                _ => TDim::Mul(factors.clone()),
            };
            TDim::MulInt(*number, Box::new(product))
        });
        let sum = TDim::Add(terms.collect());
        if magnitude(&sum) >= MANY {
            return None;
        }
        let simplified = sum.reduce();
        let is_exact =
            self.adds_sizes() || !self.joins_quotients() && Self::of(&simplified)?.is(self);
        is_exact.then_some(simplified)
    }
}

fn greatest_divisor(a: i64, b: i64) -> i64 {
    match b {
        0 => a.abs(),
        _ => greatest_divisor(b, a % b),
    }
}

/// Whether two lists of factors are the same in any order.
fn are_same(factors: &[TDim], others: &[TDim]) -> bool {
    let mut rest: Vec<&TDim> = others.iter().collect();
    let take = |factor: &TDim| {
        let at = rest.iter().position(|other| *other == factor);
        at.map(|at| rest.swap_remove(at)).is_some()
    };
    factors.len() == others.len() && factors.iter().all(take)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An expression, and what it is in numbers.
    type Term = (TDim, fn([i64; 2]) -> i64);

    /// Symbols, and their scope, without which nothing is simplified.
    fn symbols() -> ([Symbol; 2], SymbolScope) {
        let scope = SymbolScope::default();
        (["N", "M"].map(|name| scope.sym(name)), scope)
    }

    #[track_caller]
    fn assert_is(found: &TDim, symbols: &[Symbol; 2], expected: impl Fn([i64; 2]) -> i64) {
        for (n, m) in (0..9).flat_map(|n| (0..9).map(move |m| (n, m))) {
            let values = SymbolValues::default()
                .with(&symbols[0], n)
                .with(&symbols[1], m);
            let value = found.eval(&values).to_i64().unwrap();
            assert_eq!(value, expected([n, m]), "{found} of N = {n}, M = {m}");
        }
    }

    #[test]
    fn quotients_are_rounded_towards_0() {
        let (symbols, _scope) = symbols();
        let [n, m] = [0, 1].map(|at| symbols[at].to_dim());
        let dividends: [Term; 7] = [
            (n.clone(), |[n, _]| n),
            (n.clone() - 1, |[n, _]| n - 1),
            (n.clone() - 5, |[n, _]| n - 5),
            (-n.clone(), |[n, _]| -n),
            (n.clone() - &m, |[n, m]| n - m),
            (n.clone() * 2 - m.clone() * 3 + 1, |[n, m]| {
                2 * n - 3 * m + 1
            }),
            (n.clone() * &m - 7, |[n, m]| n * m - 7),
        ];
        for (dividend, number) in &dividends {
            for by in [-3, -2, 2, 3, 4] {
                let found = quotient(dividend, &by.to_dim()).unwrap();
                assert_is(&found, &symbols, |at| number(at) / by);
                let again = quotient(&(found - 1), &2.to_dim()).unwrap();
                assert_is(&again, &symbols, |at| (number(at) / by - 1) / 2);
            }
        }
    }

    #[test]
    fn a_quotient_is_not_joined_with_what_is_subtracted_from_it() {
        let (symbols, _scope) = symbols();
        let [n, m] = [0, 1].map(|at| symbols[at].to_dim());
        let half = quotient(&n, &2.to_dim()).unwrap();
        assert_eq!(difference(&half, &n), None);
        // tract takes it for equal to the half.
        assert_eq!(difference(&n, &half), None);
        let apart = difference(&m, &half).unwrap();
        assert_is(&apart, &symbols, |[n, m]| m - n / 2);
        assert_eq!(sum(&apart, &n), None);
        let even = product(&half, &2.to_dim()).unwrap();
        let odd = difference(&n, &even).unwrap();
        assert_is(&odd, &symbols, |[n, _]| n % 2);
        let more = sum(&half, &n).unwrap();
        assert_is(&more, &symbols, |[n, _]| n / 2 + n);
        // tract simplifies in another order in each process: of one in 150, none is exact.
        if let Some(product) = product(&more, &apart) {
            assert_is(&product, &symbols, |[n, m]| (n / 2 + n) * (m - n / 2));
        }
    }

    #[test]
    fn sizes_of_convolutions_stay_plain() {
        let ([n, _], _scope) = symbols();
        let n = n.to_dim();
        let half = quotient(&(n.clone() + 1), &2.to_dim()).unwrap();
        assert_eq!(half.to_string(), "(N+1)/2");
        let up = difference(&0.to_dim(), &quotient(&-n, &4.to_dim()).unwrap());
        assert_eq!(up.unwrap().to_string(), "(N)/4");
    }

    #[test]
    fn large_numbers_are_no_expressions() {
        let ([n, _], _scope) = symbols();
        let n = n.to_dim();
        assert_eq!(sum(&n, &i64::MAX.to_dim()), None);
        let third = quotient(&n, &3.to_dim()).unwrap();
        assert_eq!(sum(&third, &(1_i64 << 59).to_dim()), None);
        assert_eq!(quotient(&n, &(1_i64 << 61).to_dim()), None);
    }
}
