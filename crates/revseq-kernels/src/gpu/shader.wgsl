// The kernels. This file is WGSL as it stands; `shader.rs` makes the variants of
// a pipeline from it by replacing text:
//
//   alias Unit = vec4<u32>;    also `vec2<u32>` and `u32`: the bytes that one load moves.
//   var<storage, read>         `read_write` where two tensors lie in one buffer, which
//                              cannot be bound for reading and for writing at once.
//   apart_units[, apart_words[ `output_…[` where both halves of the pairs that swap lie in
//                              one window of the buffer, and so in one binding.
//
// Two rules keep invocations apart. A plain store goes to a word (or vector) that
// one invocation alone writes. A word of which several invocations own some bytes
// each is only changed by `atomicXor` with the difference in those bytes, which
// leaves the others as they are whatever the order.

alias Unit = vec4<u32>;

/// A loop: its size, and the step of one round in input, output and lengths.
struct Loop {
    size: u32,
    input: u32,
    output: u32,
    lengths: u32,
}

// Offsets and steps are in units for `copy_units` and `swap_units`, in bytes for
// the kernels of words and bytes; in lengths for the lengths.
struct Params {
    // How many invocations have work, and how many are in one row of the dispatch.
    items: u32,
    dispatch_width: u32,
    // The loops, outermost first, and which of them is time (none: `loop_count`).
    loop_count: u32,
    time_loop: u32,
    // Where the slab starts in the bindings.
    input_base: u32,
    output_base: u32,
    lengths_base: u32,
    // 1 or 2 words a length; 1 if signed.
    length_words: u32,
    length_signed: u32,
    // The upper bound of lengths.
    axis_size: u32,
    // The time steps that are written, and those that can be read here.
    to_start: u32,
    to_end: u32,
    from_start: u32,
    from_end: u32,
    // The step of time in the input, or in the mirrored half of the pairs.
    time_input: u32,
    // The bytes of a row, or 0 where the run along time itself is mirrored.
    row_bytes: u32,
    // 1 or 2: the bytes that stay together.
    granule: u32,
    // `copy_words`: the loops from here on are resolved by address.
    block_loop: u32,
    // The words of a block, or those that a run of pairs touches at most; for a
    // check, the lengths in this binding from the first to the last.
    block_words: u32,
    // The index of the first length in this binding.
    index_base: u32,
    loops: array<Loop, 32>,
}

/// The status that the host reads after `check_lengths` and `report_length`.
struct Status {
    // How many lengths are out of range.
    count: atomic<u32>,
    // The complement of the first one's index, so that a cleared status has none.
    complement: atomic<u32>,
    // Its value, extended to 64 bits.
    low: atomic<u32>,
    high: atomic<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> lengths: array<u32>;
@group(0) @binding(2) var<storage, read> input_units: array<Unit>;
@group(0) @binding(2) var<storage, read> input_words: array<u32>;
@group(0) @binding(2) var<storage, read_write> apart_units: array<Unit>;
@group(0) @binding(2) var<storage, read_write> apart_words: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> output_units: array<Unit>;
@group(0) @binding(3) var<storage, read_write> output_plain: array<u32>;
@group(0) @binding(3) var<storage, read_write> output_words: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> status: Status;

struct Place {
    input: u32,
    output: u32,
    lengths: u32,
    time: u32,
}

/// `place` after some iterations of a loop. Time moves only the output: the input
/// depends on the length.
fn advanced(place: Place, index: u32, rounds: u32) -> Place {
    let step = params.loops[index];
    return Place(
        place.input + rounds * step.input,
        place.output + rounds * step.output,
        place.lengths + rounds * step.lengths,
        place.time + select(0u, rounds, index == params.time_loop),
    );
}

/// The place of an item in the first `loop_count` loops.
fn located(item: u32, loop_count: u32) -> Place {
    var place = Place(params.input_base, params.output_base, 0u, params.to_start);
    var rest = item;
    for (var index = loop_count; index > 0u; index--) {
        let size = params.loops[index - 1u].size;
        place = advanced(place, index - 1u, rest % size);
        rest /= size;
    }
    return place;
}

/// The words of a length, the second one by extending its sign.
fn length_at(index: u32) -> vec2<u32> {
    let at = params.lengths_base + index * params.length_words;
    let low = lengths[at];
    if params.length_words == 2u {
        return vec2(low, lengths[at + 1u]);
    }
    return vec2(low, select(0u, 0xffffffffu, params.length_signed != 0u && (low >> 31u) != 0u));
}

fn is_negative(length: vec2<u32>) -> bool {
    return params.length_signed != 0u && (length.y >> 31u) != 0u;
}

fn clamped_length(index: u32) -> u32 {
    let length = length_at(index);
    if is_negative(length) {
        return 0u;
    }
    return select(min(length.x, params.axis_size), params.axis_size, length.y != 0u);
}

/// The time step that a time step of a subsequence of this length reads.
fn source(length: u32, time: u32) -> u32 {
    return select(time, length - 1u - time, time < length);
}

/// Whether a time step can be read in this slab.
fn readable(time: u32) -> bool {
    return time >= params.from_start && time < params.from_end;
}

/// The `bytes` lowest bytes, 1 to 4.
fn low_bytes(bytes: u32) -> u32 {
    return 0xffffffffu >> (32u - 8u * bytes);
}

fn shift_of(address: u32) -> u32 {
    return 8u * (address & 3u);
}

fn input_granule(address: u32) -> u32 {
    return (input_words[address / 4u] >> shift_of(address)) & low_bytes(params.granule);
}

/// One unit of an invocation's own.
@compute @workgroup_size(64)
fn copy_units(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let at = located(item, params.loop_count);
    let time = source(clamped_length(at.lengths), at.time);
    if readable(time) {
        output_units[at.output] =
            input_units[at.input + (time - params.from_start) * params.time_input];
    }
}

/// One word of the output: each granule in it that is an element's, found by its
/// address, and the rest as it was.
@compute @workgroup_size(64)
fn copy_words(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let outside = located(item / params.block_words, params.block_loop);
    let word = item % params.block_words;
    // Where the block starts in its first word.
    let start = outside.output & 3u;
    var value = 0u;
    var owned = 0u;
    for (var byte = 0u; byte < 4u; byte += params.granule) {
        if 4u * word + byte < start {
            continue;
        }
        var rest = 4u * word + byte - start;
        var at = outside;
        var inside = true;
        for (var index = params.block_loop; index < params.loop_count; index++) {
            let step = params.loops[index];
            let rounds = rest / step.output;
            rest -= rounds * step.output;
            inside = inside && rounds < step.size;
            at = advanced(at, index, rounds);
        }
        if !inside || rest != 0u {
            continue;
        }
        let time = source(clamped_length(at.lengths), at.time);
        if readable(time) {
            let address = at.input + (time - params.from_start) * params.time_input;
            value |= input_granule(address) << (8u * byte);
            owned |= low_bytes(params.granule) << (8u * byte);
        }
    }
    let to = outside.output / 4u + word;
    if owned == 0xffffffffu {
        output_plain[to] = value;
    } else if owned != 0u {
        output_plain[to] = (output_plain[to] & ~owned) | value;
    }
}

/// One granule, in a word that other invocations may have granules in.
@compute @workgroup_size(64)
fn copy_granules(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let at = located(item, params.loop_count);
    let time = source(clamped_length(at.lengths), at.time);
    if readable(time) {
        let value = input_granule(at.input + (time - params.from_start) * params.time_input);
        let shift = shift_of(at.output);
        let old = (atomicLoad(&output_words[at.output / 4u]) >> shift) & low_bytes(params.granule);
        atomicXor(&output_words[at.output / 4u], (old ^ value) << shift);
    }
}

/// One unit of the first half, and its mirror image.
@compute @workgroup_size(64)
fn swap_units(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let at = located(item, params.loop_count);
    let length = clamped_length(at.lengths);
    if at.time >= length / 2u || !readable(length - 1u - at.time) {
        return;
    }
    let other = at.input + (length - 1u - at.time - params.from_start) * params.time_input;
    let kept = output_units[at.output];
    output_units[at.output] = apart_units[other];
    apart_units[other] = kept;
}

/// The granules of `count` bytes in the opposite order.
fn mirrored(value: u32, count: u32) -> u32 {
    var result = 0u;
    for (var byte = 0u; byte < count; byte += params.granule) {
        let granule = (value >> (8u * byte)) & low_bytes(params.granule);
        result |= granule << (8u * (count - params.granule - byte));
    }
    return result;
}

/// Swaps the part of the first half that lies in one word with its mirror image,
/// which may lie in two.
@compute @workgroup_size(64)
fn swap_words(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let at = located(item / params.block_words, params.loop_count);
    let length = clamped_length(at.lengths);
    // The run: a row, or the pairs along time whose mirror image can be reached.
    var start = at.output;
    var end = at.output + params.row_bytes;
    if params.row_bytes != 0u {
        if at.time >= length / 2u || !readable(length - 1u - at.time) {
            return;
        }
    } else {
        let low = max(params.to_start, length - min(length, params.from_end));
        let high = min(min(params.to_end, length / 2u), length - min(length, params.from_start));
        if low >= high {
            return;
        }
        start = at.output + (low - params.to_start) * params.granule;
        end = at.output + (high - params.to_start) * params.granule;
    }
    let word = at.output / 4u + item % params.block_words;
    let first = max(start, 4u * word);
    let last = min(end, 4u * word + 4u);
    if first >= last {
        return;
    }
    let count = last - first;
    var other = at.input + first - at.output;
    if params.row_bytes != 0u {
        other += (length - 1u - at.time - params.from_start) * params.time_input;
    } else {
        let last_time = params.to_start + (last - at.output) / params.granule - 1u;
        other = at.input + (length - 1u - last_time - params.from_start) * params.granule;
    }
    // Only this invocation changes these bytes, so they are unchanged when it reads them.
    let shift = shift_of(first);
    let one = (atomicLoad(&output_words[word]) >> shift) & low_bytes(count);
    let other_shift = shift_of(other);
    let straddles = other_shift + 8u * count > 32u;
    var two = atomicLoad(&apart_words[other / 4u]) >> other_shift;
    if straddles {
        two |= atomicLoad(&apart_words[other / 4u + 1u]) << (32u - other_shift);
    }
    two &= low_bytes(count);
    var one_becomes = two;
    var two_becomes = one;
    if params.row_bytes == 0u {
        one_becomes = mirrored(two, count);
        two_becomes = mirrored(one, count);
    }
    atomicXor(&output_words[word], (one ^ one_becomes) << shift);
    atomicXor(&apart_words[other / 4u], (two ^ two_becomes) << other_shift);
    if straddles {
        atomicXor(&apart_words[other / 4u + 1u], (two ^ two_becomes) >> (32u - other_shift));
    }
}

/// Counts the lengths that are out of range and finds the first one's index.
@compute @workgroup_size(64)
fn check_lengths(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let index = located(item, params.loop_count).lengths;
    let length = length_at(index);
    if is_negative(length) || length.y != 0u || length.x > params.axis_size {
        atomicAdd(&status.count, 1u);
        atomicMax(&status.complement, ~(params.index_base + index));
    }
}

/// Reads the value of the first length that is out of range, if it lies in this binding.
@compute @workgroup_size(1)
fn report_length() {
    if atomicLoad(&status.count) == 0u {
        return;
    }
    let first = ~atomicLoad(&status.complement);
    if first >= params.index_base && first - params.index_base < params.block_words {
        let length = length_at(first - params.index_base);
        atomicStore(&status.low, length.x);
        atomicStore(&status.high, length.y);
    }
}
