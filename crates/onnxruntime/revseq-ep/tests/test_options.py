"""Provider options."""

import numpy as np
import pytest

import harness

SEQUENCE = harness.reverse_sequence([2, 3], batch_axis=0, time_axis=1)
SUBSEQUENCES = harness.reverse_subsequences([2, 3], 1)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
FEEDS = {
    "ReverseSequence": (SEQUENCE, {"x": X, "lens": np.array([7, 2], np.int64)}),
    "ReverseSubsequences": (SUBSEQUENCES, {"x": X, "lens": np.array([[7], [2]], np.uint32)}),
}
CLAMPED = [[2, 1, 0], [4, 3, 5]]


@pytest.mark.parametrize("operator", FEEDS)
@pytest.mark.parametrize("lengths", ["clamp", "reject", None])
def test_lengths(operator, lengths):
    """Unset, each operator has its own default; set, it applies to both."""
    model, feeds = FEEDS[operator]
    options = {"lengths": lengths} if lengths else {}
    session = harness.session(model, provider_options=options)
    harness.assert_on_ep(session, 1)
    clamps = lengths == "clamp" or (lengths is None and operator == "ReverseSubsequences")
    if clamps:
        assert session.run(None, feeds)[0].tolist() == CLAMPED
    else:
        message = f'{operator} node "the_node": sequence length 7 at index 0 is out of range'
        with pytest.raises(Exception, match=message):
            session.run(None, feeds)


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"length": "clamp"},
            'unknown provider option "length" of RevSeqExecutionProvider, '
            'expected "lengths", "layers", "loops" or "assume"',
        ),
        (
            {"lengths": "CLAMP"},
            'provider option "lengths" is "CLAMP", expected "reject" or "clamp"',
        ),
        ({"lengths": ""}, 'provider option "lengths" is "", expected "reject" or "clamp"'),
        (
            {"assume": "right-padded"},
            'provider option "assume" is about loops that become layers, and "loops" is not given, '
            'expected "layers" beside it',
        ),
    ],
)
def test_wrong_options_are_refused_with_the_right_ones(options, message):
    with pytest.raises(Exception, match=message):
        harness.session(SEQUENCE, provider_options=options)


def test_sessions_have_their_own_options():
    model, feeds = FEEDS["ReverseSequence"]
    clamping = harness.session(model, provider_options={"lengths": "clamp"})
    rejecting = harness.session(model)
    assert clamping.run(None, feeds)[0].tolist() == CLAMPED
    with pytest.raises(Exception, match="out of range"):
        rejecting.run(None, feeds)
    assert clamping.run(None, feeds)[0].tolist() == CLAMPED


def test_wrong_options_are_refused_for_any_model():
    model = harness.parsed("(float[2] x) => (float[2] y) { y = Neg (x) }")
    with pytest.raises(Exception, match='unknown provider option "nonsense"'):
        harness.session(model, provider_options={"nonsense": "1"})


@pytest.mark.parametrize("switch, ours", [("off", False), ("on", True)])
def test_the_environment_switches_layers_off(monkeypatch, switch, ours):
    """An operator of a service has no other way without a deploy."""
    monkeypatch.setenv("REVSEQ_EP", switch)
    text = "(float[3,1,2] x) => (float[3,1,1,2] y) { y = RNN <hidden_size = 2> (x, w, w) }"
    model = harness.parsed(text, w=np.full((1, 2, 2), 0.5, np.float32))
    session = harness.session(model, provider_options={"layers": "on", "loops": "steps"})
    assert ("RNN" in harness.assigned(session).get(harness.EP, [])) == ours


def test_another_value_of_the_switch_is_refused(monkeypatch):
    monkeypatch.setenv("REVSEQ_EP", "no")
    with pytest.raises(Exception, match="REVSEQ_EP=no, expected REVSEQ_EP=off or REVSEQ_EP=on"):
        harness.session(SEQUENCE)
