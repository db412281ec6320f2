//! A plain version of ONNX's equations.

use super::{Array, Case, FUNCTIONS, Kind};

impl Case {
    fn function(&self, direction: usize, index: usize, x: f64) -> f64 {
        let clipped = match self.clip {
            Some(clip) if !(self.kind == Kind::Lstm && index == 2) => {
                x.clamp(f64::from(-clip), f64::from(clip))
            }
            _ => x,
        };
        let count = self.kind.activations();
        match &self.activations {
            None => match (self.kind, index) {
                (Kind::Rnn, _) | (_, 1 | 2) => clipped.tanh(),
                _ => 1.0 / (1.0 + (-clipped).exp()),
            },
            Some(all) => {
                let (function, alpha, beta) = all[direction * count + index];
                FUNCTIONS[function].2(clipped, f64::from(alpha), f64::from(beta))
            }
        }
    }

    /// The outputs by ONNX's equations, one position at a time, in `f64`.
    pub(super) fn by_definition(&self) -> Vec<Vec<f64>> {
        let [x, w, r, b, h0, c0, p] = self.inputs();
        let (time, batch, hidden) = (self.time, self.batch, self.hidden);
        let (directions, gates) = (self.directions(), self.kind.gates());
        let mut y = vec![0.0; time * directions * batch * hidden];
        let mut last = [
            vec![0.0; directions * batch * hidden],
            vec![0.0; directions * batch * hidden],
        ];
        for direction in 0..directions {
            let backward = self.direction == "reverse" || direction == 1;
            for item in 0..batch {
                let position = |a: usize| {
                    if self.is_batch_first {
                        [item, a]
                    } else {
                        [a, item]
                    }
                };
                let initial = |from: &Array| -> Vec<f64> {
                    let [a, b] = position(direction);
                    let at = |unit| {
                        if self.has_initial {
                            from.at(&[a, b, unit])
                        } else {
                            0.0
                        }
                    };
                    (0..hidden).map(at).collect()
                };
                let (mut h, mut c) = (initial(&h0), initial(&c0));
                let length = self.lengths.as_ref().map_or(time, |it| {
                    let length = usize::try_from(it[item]).unwrap_or(0);
                    length.min(time)
                });
                let steps: Vec<usize> = if backward {
                    (0..length).rev().collect()
                } else {
                    (0..length).collect()
                };
                for step in steps {
                    let [s, t] = position(step);
                    let bias = |part: usize, row: usize| {
                        if self.has_bias {
                            b.at(&[direction, part * gates * hidden + row])
                        } else {
                            0.0
                        }
                    };
                    let input = |row: usize| {
                        let products = (0..self.features)
                            .map(|i| x.at(&[s, t, i]) * w.at(&[direction, row, i]));
                        products.sum::<f64>() + bias(0, row)
                    };
                    let state = |row: usize, h: &[f64]| {
                        (0..hidden)
                            .map(|i| h[i] * r.at(&[direction, row, i]))
                            .sum::<f64>()
                    };
                    let gate = |gate: usize, unit: usize| {
                        let row = gate * hidden + unit;
                        input(row) + state(row, &h) + bias(1, row)
                    };
                    let f = |index: usize, x: f64| self.function(direction, index, x);
                    let resets: Vec<f64> = match self.kind {
                        Kind::Gru => (0..hidden).map(|unit| f(0, gate(1, unit))).collect(),
                        _ => vec![],
                    };
                    let reset = std::iter::zip(&resets, &h);
                    let reset: Vec<f64> = reset.map(|(reset, h)| reset * h).collect();
                    let mut next = (vec![], vec![]);
                    for unit in 0..hidden {
                        let peephole = |index: usize, c: f64| {
                            if self.has_peepholes {
                                c * p.at(&[direction, index * hidden + unit])
                            } else {
                                0.0
                            }
                        };
                        match self.kind {
                            Kind::Rnn => next.0.push(f(0, gate(0, unit))),
                            Kind::Gru => {
                                let z = f(0, gate(0, unit));
                                let row = 2 * hidden + unit;
                                let seen = if self.is_set {
                                    resets[unit] * (state(row, &h) + bias(1, row))
                                } else {
                                    state(row, &reset) + bias(1, row)
                                };
                                let new = f(1, input(row) + seen);
                                next.0.push((1.0 - z) * new + z * h[unit]);
                            }
                            Kind::Lstm => {
                                let i = f(0, gate(0, unit) + peephole(0, c[unit]));
                                let forget = if self.is_set {
                                    1.0 - i
                                } else {
                                    f(0, gate(2, unit) + peephole(2, c[unit]))
                                };
                                let cell = forget * c[unit] + i * f(1, gate(3, unit));
                                let o = f(0, gate(1, unit) + peephole(1, cell));
                                next.0.push(o * f(2, cell));
                                next.1.push(cell);
                            }
                        }
                    }
                    (h, c) = next;
                    let at = if self.is_batch_first {
                        ((item * time + step) * directions + direction) * hidden
                    } else {
                        ((step * directions + direction) * batch + item) * hidden
                    };
                    y[at..at + hidden].copy_from_slice(&h);
                }
                if length == 0 && self.lengths.is_some() {
                    h.fill(0.0);
                    c.fill(0.0);
                }
                let [a, b] = position(direction);
                let at = (a * if self.is_batch_first {
                    directions
                } else {
                    batch
                } + b)
                    * hidden;
                last[0][at..at + hidden].copy_from_slice(&h);
                if self.kind == Kind::Lstm {
                    last[1][at..at + hidden].copy_from_slice(&c);
                }
            }
        }
        let [h, c] = last;
        [y, h, c].into_iter().take(self.outputs()).collect()
    }
}
