//! Small models with reversals, loops and layers, damaged and rewritten.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use revseq_onnx::{decode, encode};
use revseq_rewrite::{Assumptions, Options, RUNTIMES};
use tract_onnx::pb::ModelProto;

use crate::tract::{damaged, decoded, models};

/// The models that are damaged: at least one for each pass.
const MODELS: &[&[u8]] = models![
    "backend/test_reversesequence_batch",
    "exported/keras_gru_bidirectional",
    "exported/keras_gru_masked_backwards",
    "exported/keras_lstm_backwards_states",
    "exported/keras_lstm_gru_simplernn",
    "exported/keras_simplernn_bidirectional_masked",
    "exported/mxnet_sequence_reverse_encoder",
    "exported/tf_axes_2_3",
    "exported/tf_speech_bigru_timemajor",
    "exported/tf_while_reverse_sequence",
    "graphs/between_neg",
    "graphs/bilstm_flip",
    "graphs/if_branch",
    "graphs/local_function_attributes",
    "graphs/scan_body",
    "graphs/transposed",
    "graphs/twice_other_lengths",
    "lengths/flip_chain",
    "lengths/full_initializer",
    "lengths/mask_sum",
    "page/example_1_uint32",
    "shapes/symbolic_batch_time",
    "subsequences/rank3_axis1",
    "types/string",
];

/// Damages a model as the bytes say, or takes them as one, and rewrites it.
pub fn rewrite(data: &[u8]) {
    static DECODED: LazyLock<Vec<ModelProto>> = LazyLock::new(|| decoded(MODELS));
    let mut u = Unstructured::new(data);
    let Ok(options) = options(&mut u) else {
        return;
    };
    let Ok(Ok(mut model)) = damaged(&DECODED, &mut u).map(|bytes| decode(&bytes)) else {
        return;
    };
    let mut again = model.clone();
    let report = revseq_rewrite::rewrite_messages(&mut model, &options).expect("known passes");
    let same = revseq_rewrite::rewrite_messages(&mut again, &options).expect("known passes");
    assert_eq!((&model, &report), (&again, &same), "not the same twice");
    let bytes = encode(&model).expect("it fits");
    assert_eq!(decode(&bytes).expect("a model"), model);
    let more = revseq_rewrite::rewrite_messages(&mut again, &options).expect("known passes");
    assert!(model == again, "there is more to do: {more:?}");
}

fn options(u: &mut Unstructured<'_>) -> Result<Options> {
    let flags: u8 = u.arbitrary()?;
    Ok(Options {
        fast: true,
        portable: flags & 1 != 0,
        runtime: (flags & 8 != 0).then(|| {
            let last = RUNTIMES.len() - 1;
            let place = last - usize::from(flags >> 4) % RUNTIMES.len();
            RUNTIMES[place].name.to_owned()
        }),
        passes: match flags & 2 {
            0 => Vec::new(),
            _ => vec!["sequence-lens".to_owned()],
        },
        assume: Assumptions {
            right_padded: flags & 4 != 0,
            ..Assumptions::default()
        },
        masked_layers: false,
        takes_empty: false,
    })
}
