// The kernels that work in place, behind those of `shader.wgsl`, whose parameters and rules they share.

/// One unit of the first half, and its mirror image.
@compute @workgroup_size(64)
fn swap_units(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = item_of(id);
    if item.index >= params.block_size {
        return;
    }
    let at = moved(item.block, params.block_loop, params.loop_count, item.index);
    let length = clamped_length(at.lengths);
    let end = min(params.to_end, length / 2u);
    var time = at.time;
    var one = at.output;
    for (var step = 0u; step < params.steps && time < end; step++) {
        let mirror = length - 1u - time;
        if readable(mirror) {
            let other = at.input + (mirror - params.from_start) * params.time_input;
            let kept = output_units[one];
            output_units[one] = apart_units[other];
            apart_units[other] = kept;
        }
        time += params.stride;
        one += params.stride * params.time_output;
    }
}

/// Swaps the part of the first half that lies in one word with its mirror image,
/// which may lie in two.
@compute @workgroup_size(64)
fn swap_words(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = item_of(id);
    if item.index >= params.block_size {
        return;
    }
    let at = item.block;
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
    let word = at.output / 4u + item.index;
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

/// The length of a column, or 0 where a block has no such column.
fn column_length(lengths: u32, column: u32) -> u32 {
    let columns = params.loops[params.block_loop];
    if column >= columns.size {
        return 0u;
    }
    return clamped_length(lengths + column * columns.lengths);
}

/// Gives a granule of the second half its mirror image's value, and returns the
/// difference, which the mirror image has to change by.
fn exchanged(kept: u32, byte: u32, length: u32, time: u32, input: u32) -> u32 {
    if time >= length / 2u || !readable(length - 1u - time) {
        return 0u;
    }
    let other = input + byte + (length - 1u - time - params.from_start) * params.time_input;
    let shift = shift_of(other);
    let two = atomicLoad(&apart_words[other / 4u]) >> shift;
    let difference = (two ^ (kept >> (8u * byte))) & low_bytes(params.granule);
    atomicXor(&apart_words[other / 4u], difference << shift);
    return difference << (8u * byte);
}

/// Swaps the granules of neighbouring columns, as many as a word has, in some time steps
/// of the first half with their mirror images.
@compute @workgroup_size(64)
fn swap_columns(@builtin(global_invocation_id) id: vec3<u32>) {
    let item = item_of(id);
    if item.index >= params.block_size {
        return;
    }
    let at = item.block;
    let column = item.index * (4u / params.granule);
    let input = at.input + 4u * item.index;
    var lengths = vec4<u32>();
    lengths.x = column_length(at.lengths, column);
    if params.granule == 2u {
        lengths.z = column_length(at.lengths, column + 1u);
    } else {
        lengths.y = column_length(at.lengths, column + 1u);
        lengths.z = column_length(at.lengths, column + 2u);
        lengths.w = column_length(at.lengths, column + 3u);
    }
    let longest = max(max(lengths.x, lengths.y), max(lengths.z, lengths.w));
    let end = min(params.to_end, longest / 2u);
    let count = min(4u, (params.loops[params.block_loop].size - column) * params.granule);
    var near = at.output + 4u * item.index;
    var time = at.time;
    for (var step = 0u; step < params.steps && time < end; step++) {
        // Only this invocation changes these bytes, so they are unchanged when it reads them.
        let shift = shift_of(near);
        let straddles = shift + 8u * count > 32u;
        var kept = atomicLoad(&output_words[near / 4u]) >> shift;
        if straddles {
            kept |= atomicLoad(&output_words[near / 4u + 1u]) << (32u - shift);
        }
        var difference = exchanged(kept, 0u, lengths.x, time, input);
        difference |= exchanged(kept, 2u, lengths.z, time, input);
        if params.granule == 1u {
            difference |= exchanged(kept, 1u, lengths.y, time, input);
            difference |= exchanged(kept, 3u, lengths.w, time, input);
        }
        atomicXor(&output_words[near / 4u], difference << shift);
        if straddles {
            atomicXor(&output_words[near / 4u + 1u], difference >> (32u - shift));
        }
        time += params.stride;
        near += params.stride * params.time_output;
    }
}
