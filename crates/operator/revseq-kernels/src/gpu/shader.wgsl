// The kernels; `swaps.wgsl` has those that work in place. Together they are WGSL as they
// stand; `shader.rs` makes the variants of a pipeline from them by replacing text:
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
//
// The loops from `block_loop` on make up a block, which has units, words, or columns of
// a word. An item is one of these, in `steps` time steps, or as many words along time,
// which lie `stride` apart. Where each column has its length, `group` neighbours of a block
// in all time steps are items of one layer of the dispatch: they share what memory moves
// at once, of which each byte is needed at another time.
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
    // The first loop of a block, and what a block has; for a run of pairs, the words
    // that it touches at most; for a check, the lengths in this binding from the first
    // to the last.
    block_loop: u32,
    block_size: u32,
    // The index of the first length in this binding.
    index_base: u32,
    // The items of a block, and how many are in a layer of the dispatch: a power of two,
    // or 0 for all.
    block_items: u32,
    group: u32,
    // The time steps of an item, or its words, and how far apart they are.
    steps: u32,
    stride: u32,
    // The step of time in the output, or in the first half of the pairs.
    time_output: u32,
    @align(16) loops: array<Loop, 32>,
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

/// `place` after the iterations of the loops from `first` to `end`, counted as one.
fn moved(place: Place, first: u32, end: u32, iterations: u32) -> Place {
    var result = place;
    var rest = iterations;
    if first == end {
        return result;
    }
    for (var index = end - 1u; index > first; index--) {
        let size = params.loops[index].size;
        let outside = rest / size;
        result = advanced(result, index, rest - outside * size);
        rest = outside;
    }
    return advanced(result, first, rest);
}

/// An item: the place of its block, and what it is in the block.
struct Item {
    block: Place,
    index: u32,
}

/// The item of an invocation; none if its index is `block_size` or more.
fn item_of(id: vec3<u32>) -> Item {
    let item = id.y * params.dispatch_width + id.x;
    let start = Place(params.input_base, params.output_base, 0u, params.to_start);
    if item >= params.items {
        return Item(start, params.block_size);
    }
    var outside = item;
    var index = 0u;
    if params.group != 0u {
        outside = item >> firstTrailingBit(params.group);
        index = id.z * params.group + (item & (params.group - 1u));
    } else if params.block_items > 1u {
        outside = item / params.block_items;
        index = item - outside * params.block_items;
    }
    return Item(moved(start, 0u, params.block_loop, outside), index);
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

/// Four bytes of the input from any address on.
fn input_bytes(address: u32) -> u32 {
    let shift = shift_of(address);
    let low = input_words[address / 4u] >> shift;
    if shift == 0u {
        return low;
    }
    return low | (input_words[address / 4u + 1u] << (32u - shift));
}

/// The granules of `count` bytes in the opposite order.
fn mirrored(value: u32, count: u32) -> u32 {
    let halves = (value << 16u) | (value >> 16u);
    if params.granule == 2u {
        return halves >> (32u - 8u * count);
    }
    let bytes = ((halves & 0x00ff00ffu) << 8u) | ((halves >> 8u) & 0x00ff00ffu);
    return bytes >> (32u - 8u * count);
}

/// One unit of an invocation's own.
@compute @workgroup_size(64)
fn copy_units(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = item_of(id);
    if item.index >= params.block_size {
        return;
    }
    let at = moved(item.block, params.block_loop, params.loop_count, item.index);
    let length = clamped_length(at.lengths);
    var time = at.time;
    var to = at.output;
    for (var step = 0u; step < params.steps && time < params.to_end; step++) {
        let read = source(length, time);
        if readable(read) {
            output_units[to] =
                input_units[at.input + (read - params.from_start) * params.time_input];
        }
        time += params.stride;
        to += params.stride * params.time_output;
    }
}

/// An element of a block.
struct Element {
    /// Whether there is one.
    exists: bool,
    input: u32,
    length: u32,
    time: u32,
    /// The rounds of the innermost loop from this one on.
    left: u32,
}

/// The element that starts some bytes behind its block, found by that address.
fn element_at(block: Place, bytes: u32) -> Element {
    var at = block;
    var rest = bytes;
    var left = 0u;
    for (var index = params.block_loop; index < params.loop_count; index++) {
        let step = params.loops[index];
        let rounds = rest / step.output;
        rest -= rounds * step.output;
        if rounds >= step.size {
            return Element();
        }
        left = step.size - rounds;
        at = advanced(at, index, rounds);
    }
    if rest != 0u {
        return Element();
    }
    return Element(true, at.input, clamped_length(at.lengths), at.time, left);
}

/// The element with a granule in a word.
fn element_of(block: Place, word: u32, byte: u32) -> Element {
    let at = 4u * word + byte;
    let start = block.output & 3u;
    if at < start || (byte & (params.granule - 1u)) != 0u {
        return Element();
    }
    return element_at(block, at - start);
}

/// What an element is some time steps later, and the bytes in the word that are its own.
fn granule_of(element: Element, later: u32, byte: u32) -> vec2<u32> {
    let time = source(element.length, element.time + later);
    if !element.exists || !readable(time) {
        return vec2(0u, 0u);
    }
    let address = element.input + (time - params.from_start) * params.time_input;
    return vec2(input_granule(address), low_bytes(params.granule)) << vec2(8u * byte);
}

/// Writes a word's bytes that are owned, and leaves the rest as it was.
fn write(to: u32, value: u32, owned: u32) {
    if owned == 0xffffffffu {
        output_plain[to] = value;
    } else if owned != 0u {
        output_plain[to] = (output_plain[to] & ~owned) | value;
    }
}

/// A word whose bytes are neighbouring time steps, all of them reversed or none, and 1; or 0.
fn word_along_time(first: Element) -> vec2<u32> {
    let count = 4u / params.granule;
    let last = first.time + count - 1u;
    let is_reversed = last < first.length;
    if !is_along_time() || !first.exists || first.left < count || !(is_reversed || first.time >= first.length) {
        return vec2(0u, 0u);
    }
    let low = select(first.time, first.length - 1u - last, is_reversed);
    if !readable(low) || !readable(low + count - 1u) {
        return vec2(0u, 0u);
    }
    let value = input_bytes(first.input + (low - params.from_start) * params.granule);
    return vec2(select(value, mirrored(value, 4u), is_reversed), 1u);
}

/// Whether neighbouring bytes are neighbouring time steps, in input and output.
fn is_along_time() -> bool {
    return params.time_loop + 1u == params.loop_count && params.block_loop <= params.time_loop
        && params.time_input == params.granule && params.time_output == params.granule;
}

/// A word of a block: each granule in it that is an element's. `length` is that of the
/// block's first element.
fn copy_word(block: Place, word: u32, length: u32) {
    let to = block.output / 4u + word;
    let start = block.output & 3u;
    var first: Element;
    if is_along_time() && params.block_loop == params.time_loop && 4u * word >= start {
        let rounds = (4u * word - start) >> (params.granule - 1u);
        let size = params.loops[params.time_loop].size;
        first = Element(rounds < size, block.input, length, block.time + rounds, size - rounds);
    } else {
        first = element_of(block, word, 0u);
    }
    let along_time = word_along_time(first);
    if along_time.y != 0u {
        output_plain[to] = along_time.x;
        return;
    }
    let granules = granule_of(first, 0u, 0u)
        | granule_of(element_of(block, word, 1u), 0u, 1u)
        | granule_of(element_of(block, word, 2u), 0u, 2u)
        | granule_of(element_of(block, word, 3u), 0u, 3u);
    write(to, granules.x, granules.y);
}

/// The time step from which on the elements of a word are neighbours in the input, too: the
/// first if they have the same length, else the one behind all of their lengths, if any.
fn together_from(first: Element, second: Element, third: Element, fourth: Element) -> u32 {
    let has_bytes = params.granule == 1u;
    let are_neighbours = third.input == first.input + 2u && (!has_bytes
        || second.input == first.input + 1u && fourth.input == first.input + 3u);
    if !are_neighbours || !first.exists || !third.exists || params.block_loop + 1u != params.loop_count {
        return 0xffffffffu;
    }
    let longest = max(max(first.length, second.length), max(third.length, fourth.length));
    let is_one = first.length == third.length
        && (!has_bytes || first.length == second.length && first.length == fourth.length);
    return select(longest, 0u, is_one);
}

/// Some words of the output: of a block with all its time steps, or of some time steps.
@compute @workgroup_size(64)
fn copy_words(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = item_of(id);
    if item.index >= params.block_size {
        return;
    }
    let block = item.block;
    if params.time_loop >= params.block_loop {
        let length = clamped_length(block.lengths);
        var word = item.index;
        for (var step = 0u; step < params.steps && word < params.block_size; step++) {
            copy_word(block, word, length);
            word += params.stride;
        }
        return;
    }
    let first = element_of(block, item.index, 0u);
    let second = element_of(block, item.index, 1u);
    let third = element_of(block, item.index, 2u);
    let fourth = element_of(block, item.index, 3u);
    let together = together_from(first, second, third, fourth);
    var to = block.output / 4u + item.index;
    var later = 0u;
    for (var step = 0u; step < params.steps && block.time + later < params.to_end; step++) {
        let time = first.time + later;
        let read = source(first.length, time);
        if time >= together && readable(read) {
            let address = first.input + (read - params.from_start) * params.time_input;
            output_plain[to] = input_bytes(address);
        } else {
            let granules = granule_of(first, later, 0u) | granule_of(second, later, 1u)
                | granule_of(third, later, 2u) | granule_of(fourth, later, 3u);
            write(to, granules.x, granules.y);
        }
        later += params.stride;
        to += params.stride * params.time_output / 4u;
    }
}

/// One granule, in a word that other invocations may have granules in.
@compute @workgroup_size(64)
fn copy_granules(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = item_of(id);
    if item.index >= params.block_size {
        return;
    }
    let at = item.block;
    let time = source(clamped_length(at.lengths), at.time);
    if readable(time) {
        let value = input_granule(at.input + (time - params.from_start) * params.time_input);
        let shift = shift_of(at.output);
        let old = (atomicLoad(&output_words[at.output / 4u]) >> shift) & low_bytes(params.granule);
        atomicXor(&output_words[at.output / 4u], (old ^ value) << shift);
    }
}

/// Counts the lengths that are out of range and finds the first one's index.
@compute @workgroup_size(64)
fn check_lengths(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = id.y * params.dispatch_width + id.x;
    if item >= params.items {
        return;
    }
    let index = moved(Place(), 0u, params.loop_count, item).lengths;
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
    if first >= params.index_base && first - params.index_base < params.block_size {
        let length = length_at(first - params.index_base);
        atomicStore(&status.low, length.x);
        atomicStore(&status.high, length.y);
    }
}
