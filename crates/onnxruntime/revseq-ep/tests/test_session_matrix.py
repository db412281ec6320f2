"""Every kind of session of every model with loops: made, equal to plain ONNX Runtime, no loop fewer."""

import copy
import functools

import numpy as np
import onnx
import pytest

import harness
import session_models as models
from session_kinds import KINDS, Setup
from test_loops import loops

LAYERS = {"loops": "layers"}
#: Older hosts do not hand on what a loop captures, unless its maker goes with it.
HANDS_ON_CAPTURED = harness.HOST >= (1, 27)

#: The models that go through all kinds.
MODELS = {name: models.from_text(name) for name in models.TEXTS} | {
    name: models.from_file(folder) for name, folder in models.FILES.items()
}
#: Sessions in which fewer loops become layers than in those of the file, with the reason.
FEWER = {
    ("external_data", "in_a_branch"): "a branch is not given external data of the graph around",
    ("external_data_that_a_branch_reads", "in_a_branch"): "likewise",
    # These loops run once for each step only as declared sizes are right. ONNX Runtime checks those of the
    # model's inputs, and does not say of what a branch reads whether it is one.
    **{("in_both_branches", name): "its sizes are no proof" for name in ("given_state", "hypotheses", "jax", "lite")},
    **{(kind, "in_a_branch"): "its sizes are no proof" for kind in ("declared_sizes", "sizes_by_option")},
    # It is known then that a layer's input has fewer sequences than its state.
    **{
        (kind, name): "one sequence and several states are no layer"
        for kind in ("declared_sizes", "sizes_by_option")
        for name in ("hypotheses", "hypotheses_from_zeros", "three_hypotheses_from_zeros")
    },
    # For all models:
    "names_that_are_no_text": "a rewrite tells values by their names, which it takes for text",
    "external_data_by_option": "the weights are the session's, and the file has none",
    "other_initializers_by_option": "the session has other weights than the file",
}
#: Sessions that plain ONNX Runtime does not run, with the reason.
UNANSWERED = {
    ("bound_outputs", "beside_a_map_of_pools"): "its inference has the size of a pool wrong",
}

#: The other files that have a loop.
WITH_LOOPS = {
    name: folder
    for name, folder in models.ALL_FILES.items()
    if folder not in models.FILES.values() and models.count_loops(onnx.load(folder / "model.onnx"))
}

CELLS = [
    (kind, name)
    for kind, it in KINDS.items()
    for name, model in MODELS.items()
    if it.applies(model) and (kind, name) not in UNANSWERED
]


def setup(kind: str, name: str, folder) -> Setup:
    made = Setup(copy.deepcopy(MODELS[name]), folder)
    KINDS[kind].change(made)
    return made


@functools.cache
def taken_of_file(name: str) -> int:
    """The loops that become layers in a session of the model as it is."""
    return loops(Setup(copy.deepcopy(MODELS[name]), None).session(LAYERS))[0]


def assert_same(found, expected) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        # Plain ONNX Runtime does not know the sizes of steps that were none.
        assert one.shape == other.shape or one.size == other.size == 0
        if one.size == 0:
            continue
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
        else:
            np.testing.assert_array_equal(one, other)


def names_with_provider(made) -> set[str]:
    """The names of the nodes that the provider has."""
    subgraphs = made.get_provider_graph_assignment_info()
    return {
        node.name for it in subgraphs if it.ep_name == harness.EP for node in it.get_nodes()
    }


@pytest.mark.parametrize("kind, name", CELLS)
def test_a_session(kind, name, tmp_path):
    this = setup(kind, name, tmp_path)
    plain, ours = this.session(None), this.session(LAYERS)
    compared = 0
    for feeds in this.model.feeds:
        try:
            expected = this.run(plain, feeds)
        except Exception:
            # What plain ONNX Runtime refuses is nobody's to answer.
            continue
        assert_same(this.run(ours, feeds), expected)
        compared += 1
    # Older hosts refuse what is empty.
    assert compared or kind == "no_elements"
    if not HANDS_ON_CAPTURED:
        return
    if this.others:
        assert not this.others & names_with_provider(ours), "the provider has what reads a layer"
    assert loops(ours)[0] >= taken_of_file(name) or kind in FEWER or (kind, name) in FEWER


def taken_by_rewrite(package, proto) -> int:
    """The loops that are gone once a model is rewritten."""
    rewritten, _ = package.rewrite(proto.SerializeToString())
    return models.count_loops(proto) - models.count_loops(onnx.load_model_from_string(rewritten))


@pytest.mark.parametrize("name", MODELS)
def test_the_provider_replaces_what_a_rewrite_replaces(name, package):
    by_rewrite = taken_by_rewrite(package, MODELS[name].proto)
    assert taken_of_file(name) >= by_rewrite or not HANDS_ON_CAPTURED


def test_each_layer_of_a_long_chain_is_replaced():
    this = Setup(models.of_chain(), None)
    plain, ours = this.session(None), this.session(LAYERS)
    for feeds in this.model.feeds:
        assert_same(ours.run(None, feeds), plain.run(None, feeds))
    assert loops(ours)[0] == models.CHAIN or not HANDS_ON_CAPTURED


@pytest.mark.parametrize("name", WITH_LOOPS)
def test_every_file_with_a_loop(name, package):
    """At both ends of the optimisation, with the data kept beside the model."""
    model = models.from_file(WITH_LOOPS[name])
    for level in ("level_disable_all", "level_enable_all"):
        this = Setup(model, None)
        KINDS[level].change(this)
        plain, ours = this.session(None), this.session(LAYERS)
        for feeds in model.feeds:
            assert_same(ours.run(None, feeds), plain.run(None, feeds))
        by_rewrite = taken_by_rewrite(package, model.proto)
        assert loops(ours)[0] >= by_rewrite or not HANDS_ON_CAPTURED
