//! Convolutions in a step.

use crate::common::{Constants, close, float_tensor, floats, numbers, read, run};

/// A Conv: the sizes of its input and filters, and its attributes.
struct Filters {
    input: &'static [usize],
    filters: &'static [usize],
    groups: usize,
    strides: &'static [i64],
    dilations: &'static [i64],
    pads: &'static [i64],
    auto_pad: &'static str,
}

impl Filters {
    fn node(&self) -> String {
        let pads = match self.auto_pad {
            "" => format!("pads={:?}", self.pads),
            mode => format!("auto_pad={mode}"),
        };
        let (groups, strides, dilations) = (self.groups, self.strides, self.dilations);
        format!("Conv<group={groups};strides={strides:?};dilations={dilations:?};{pads}>")
    }

    /// The sizes and elements of its output, by its formula.
    fn of(&self, x: &[f32], w: &[f32], b: &[f32]) -> (Vec<usize>, Vec<f32>) {
        // Missing axes have one element.
        let wide = |sizes: &[usize]| -> [usize; 4] {
            [
                sizes[0],
                sizes[1],
                sizes[2],
                sizes.get(3).copied().unwrap_or(1),
            ]
        };
        let pair = |all: &[i64]| [all[0], all.get(1).copied().unwrap_or(1)];
        let [batch, channels, height, width] = wide(self.input);
        let [filters, each, tall, broad] = wide(self.filters);
        let (strides, dilations) = (pair(self.strides), pair(self.dilations));
        let rank = self.input.len() - 2;
        let mut before = [0_i64; 2];
        let mut places = [1_usize; 2];
        for axis in 0..rank {
            let size = [height, width][axis] as i64;
            let reach = ([tall, broad][axis] as i64 - 1) * dilations[axis] + 1;
            let pads = match self.auto_pad {
                "" => [self.pads[axis], self.pads[rank + axis]],
                "VALID" => [0, 0],
                mode => {
                    let count = (size + strides[axis] - 1) / strides[axis];
                    let all = ((count - 1) * strides[axis] + reach - size).max(0);
                    let small = all / 2;
                    match mode {
                        "SAME_UPPER" => [small, all - small],
                        _ => [all - small, small],
                    }
                }
            };
            before[axis] = pads[0];
            places[axis] = ((size + pads[0] + pads[1] - reach) / strides[axis] + 1) as usize;
        }
        let mut made = vec![];
        for n in 0..batch {
            for (filter, bias) in b.iter().enumerate() {
                for row in 0..places[0] {
                    for column in 0..places[1] {
                        let mut sum = f64::from(*bias);
                        for channel in 0..each {
                            let own = filter / (filters / self.groups) * each + channel;
                            for i in 0..tall {
                                for j in 0..broad {
                                    let y = row as i64 * strides[0] + i as i64 * dilations[0]
                                        - before[0];
                                    let z = column as i64 * strides[1] + j as i64 * dilations[1]
                                        - before[1];
                                    if y < 0 || z < 0 || y >= height as i64 || z >= width as i64 {
                                        continue;
                                    }
                                    let from = ((n * channels + own) * height + y as usize) * width
                                        + z as usize;
                                    let with = ((filter * each + channel) * tall + i) * broad + j;
                                    sum += f64::from(x[from]) * f64::from(w[with]);
                                }
                            }
                        }
                        made.push(sum as f32);
                    }
                }
            }
        }
        ([&[batch, filters], &places[..rank]].concat(), made)
    }
}

/// Conv of what a step computes and of a slice, with constant filters and with others.
#[test]
fn convolutions_are_those_of_their_formula() {
    let one = |input, filters, groups, strides, dilations, pads, auto_pad| Filters {
        input,
        filters,
        groups,
        strides,
        dilations,
        pads,
        auto_pad,
    };
    for case in [
        one(&[1, 2, 9], &[3, 2, 3], 1, &[1], &[1], &[1, 1], ""),
        one(&[2, 4, 12], &[6, 2, 3], 2, &[2], &[2], &[3, 0], ""),
        // Columns of several tiles, in rows of steps apart, that filters of groups see.
        one(&[1, 3, 120], &[5, 3, 4], 1, &[2], &[1], &[2, 1], ""),
        one(
            &[2, 4, 14, 15],
            &[6, 2, 3, 3],
            2,
            &[2, 1],
            &[1, 2],
            &[2, 1, 2, 3],
            "",
        ),
        // Filters of a channel each, of one and of several.
        one(&[2, 5, 4], &[5, 1, 4], 5, &[1], &[1], &[0, 0], ""),
        one(&[1, 3, 50], &[6, 1, 40], 3, &[1], &[1], &[20, 19], ""),
        one(
            &[1, 3, 6, 7],
            &[6, 1, 3, 2],
            3,
            &[2, 1],
            &[1, 2],
            &[1, 0, 2, 1],
            "",
        ),
        one(
            &[2, 3, 8, 9],
            &[70, 3, 3, 3],
            1,
            &[1, 1],
            &[1, 1],
            &[1, 1, 1, 1],
            "",
        ),
        one(
            &[1, 2, 7, 6],
            &[4, 2, 3, 2],
            1,
            &[2, 3],
            &[1, 1],
            &[],
            "SAME_UPPER",
        ),
        one(
            &[1, 2, 7, 6],
            &[4, 2, 2, 4],
            1,
            &[2, 1],
            &[1, 1],
            &[],
            "SAME_LOWER",
        ),
        one(
            &[1, 2, 7, 6],
            &[4, 2, 2, 4],
            1,
            &[2, 1],
            &[1, 1],
            &[],
            "VALID",
        ),
    ] {
        let steps = 3;
        let len: usize = case.input.iter().product();
        let x = numbers(steps * len, 1);
        let w = numbers(case.filters.iter().product(), 2);
        let b = numbers(case.filters[0], 3);
        let text = format!(
            "_, all_y, all_z = Scan<body=@body;num_scan_inputs=1>(s0, xs)
             @body: s x -> next ys zs
             next = Add(s, [0.5])
             seen = Add(x, s)
             ys = {node}(seen, w, b)
             zs = {node}(x, w, b)",
            node = case.node()
        );
        let constants = [
            ("w", float_tensor(case.filters, &w)),
            ("b", float_tensor(&[b.len()], &b)),
        ];
        for around in [Constants(vec![]), Constants(constants.to_vec())] {
            let program = read(&text, &around).unwrap();
            let whole = [&[steps], case.input].concat();
            let given = [
                ("s0", floats(&[1], &[0.0])),
                ("xs", floats(&whole, &x)),
                ("w", floats(case.filters, &w)),
                ("b", floats(&case.filters[..1], &b)),
            ];
            let mut expected = [vec![], vec![]];
            let mut sizes = vec![];
            for step in 0..steps {
                let slice = &x[step * len..][..len];
                let seen: Vec<f32> = slice.iter().map(|it| it + 0.5 * step as f32).collect();
                for (all, from) in std::iter::zip(&mut expected, [&seen, slice]) {
                    let made = case.of(from, &w, &b);
                    (sizes, _) = (made.0, all.extend(made.1));
                }
            }
            let lens = [0, expected[0].len(), expected[1].len()];
            let (memory, made) = run(&program, &given, lens).unwrap();
            assert_eq!(made[1], [&[steps], &*sizes].concat());
            let filters = case.filters;
            close(&memory[1], &expected[0], &format!("{filters:?} of states"));
            close(&memory[2], &expected[1], &format!("{filters:?} of slices"));
        }
    }
}
