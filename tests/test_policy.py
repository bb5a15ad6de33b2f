"""A policy that can be used: by name and by number, drawn as it says, the same after a file, readable without us."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

import fairmdp as fm

THREE = fm.scenarios.three_state()
MDP = fm.MDP(
    [[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]], [1.0, 3.0, 0.0], [0, 0, 1],
    states=["ward_a", "ward_b"], actions=["share", "keep", "rest"],
)  # fmt: skip
WARDS = fm.Problem(MDP, [fm.Quota("ward_b", states=["ward_b"], at_least=0.5)])
MIXED = {"ward_a": {"share": 0.25, "keep": 0.75}, "ward_b": "rest"}


def test_every_way_to_state_a_policy_is_the_same_policy():
    array = np.array([0.25, 0.75, 1.0])
    for given in (
        array,
        array.tolist(),
        MIXED,
        {0: {0: 0.25, 1: 0.75}, 1: 0},
        MIXED.get,
        fm.Policy.of(MDP, MIXED),
    ):
        assert fm.Policy.of(WARDS, given).array.tolist() == array.tolist()
    solution = fm.solve(WARDS)
    assert fm.Policy.of(WARDS, solution).array.tolist() == solution.policy.tolist()
    nameless = fm.MDP(MDP.P, MDP.r, MDP.s_of)  # a number comes, and one may go
    assert fm.Policy.of(nameless, lambda s: {0: 1, 1: "a0"}[s]).array.tolist() == [0, 1, 1]
    assert repr(fm.Policy.of(MDP, MIXED)) == "Policy(2 states, random in 1)"


def test_a_policy_of_a_simulator_goes_by_numbers():
    def walk(state, action, rng):
        return (state + 2 * action - 1) % 3, 0.0

    simulator = fm.FunctionSimulator(walk, n_states=3, n_actions=2)
    policy = fm.Policy.of(simulator, [0.0, 1, 1, 0, 0.5, 0.5])
    assert policy.act(0, np.random.default_rng(0)) == 1 and policy.probabilities(2) == {"a0": 0.5, "a1": 0.5}
    learned = fm.learn(simulator, [], samples=600, seed=0)
    assert fm.Policy.of(simulator, learned).array.tolist() == learned.policy.tolist()


def test_probabilities_and_actions_by_name_and_by_number():
    policy, rng = fm.Policy.of(MDP, MIXED), np.random.default_rng(1)
    assert policy.probabilities("ward_a") == {"share": 0.25, "keep": 0.75} == policy.probabilities(0)
    assert policy.act("ward_b", rng) == "rest" and policy.act(1, rng) == 0
    assert policy.act(np.int64(1), rng) == 0 and isinstance(policy.act(0, rng), int)
    names = policy.act(["ward_a", "ward_b"] * 3, rng)
    assert set(names[1::2]) == {"rest"} and set(names[::2]) <= {"share", "keep"}
    assert policy.act(np.zeros((2, 3), int), rng).shape == (2, 3)


def test_actions_are_drawn_with_their_probabilities():
    rng = np.random.default_rng(2)
    pi = rng.dirichlet(np.ones(5), 40)
    pi[pi < 0.05] = 0
    pi /= pi.sum(axis=1, keepdims=True)
    mdp = fm.MDP(np.full((200, 40), 1 / 40), np.zeros(200), np.repeat(np.arange(40), 5))
    policy = fm.Policy.of(mdp, pi.ravel())
    states = np.repeat(np.arange(40), 20_000)
    drawn = np.bincount(states * 5 + policy.act(states, rng), minlength=200).reshape(40, 5) / 20_000
    assert (drawn[pi == 0] == 0).all()
    assert np.abs(drawn - pi).max() < 5 * np.sqrt(0.25 / 20_000)


class LastMoment:
    """Random numbers as near to 1 as floats are, where rounding would lead beyond what is taken."""

    def random(self, shape):
        return np.full(shape, np.nextafter(1.0, 0.0))


def test_rounding_leads_to_no_action_that_is_never_taken(monkeypatch):
    mdp = fm.MDP(np.ones((12, 1)), np.zeros(12), np.zeros(12, int))
    pi = np.append(np.full(10, 0.1), [0.0, 0.0])
    monkeypatch.setattr("fairmdp.policy.policy._generator", lambda rng: rng)
    assert fm.Policy.of(mdp, pi).act(0, LastMoment()) == 9


@pytest.mark.parametrize("name", ["policy.json", "policy.csv"])
def test_files_keep_everything(tmp_path, name):
    odd = fm.MDP(MDP.P, MDP.r, MDP.s_of, states=["=1+1", "a,'b\""], actions=["'x", "-y", "z"])
    for model in (MDP, odd, THREE.mdp):
        policy = fm.Policy.of(model, np.where(model.n_actions[model.s_of] == 1, 1.0, 0.5))
        policy.save(tmp_path / name)
        again = fm.Policy.load(tmp_path / name)
        assert again.array.tolist() == policy.array.tolist()
        assert fm.Policy.of(model, again).labels == policy.labels
        assert again.to_table() == policy.to_table()
        rng = np.random.default_rng(0), np.random.default_rng(0)
        assert [again.act(0, rng[0]) for _ in range(9)] == [policy.act(0, rng[1]) for _ in range(9)]


def test_files_are_read_without_us(tmp_path):
    fm.Policy.of(MDP, MIXED).save(tmp_path / "policy.json")
    fm.Policy.of(MDP, MIXED).save(tmp_path / "policy.csv")
    kept = json.loads((tmp_path / "policy.json").read_text())
    assert kept["policies"][0]["states"] == {"ward_a": {"share": 0.25, "keep": 0.75}, "ward_b": {"rest": 1.0}}
    with open(tmp_path / "policy.csv") as file:
        assert [*csv.DictReader(file)][1] == {"state": "ward_a", "action": "keep", "probability": "0.75"}


def test_spreadsheets_of_people(tmp_path):
    (tmp_path / "p.csv").write_text(
        "\ufeffState, Action ,Probability,remark\nward_b,rest,100%,x\nward_a,share,25%,\nward_a,keep,0.75,\n"
    )
    policy = fm.Policy.of(WARDS, fm.Policy.load(tmp_path / "p.csv"))
    assert policy.array.tolist() == [0.25, 0.75, 1.0]
    (tmp_path / "p.csv").write_text("state,action\nward_b,rest\nward_a,keep\n")
    assert fm.Policy.of(WARDS, fm.Policy.load(tmp_path / "p.csv")).array.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "line 1: there is no column 'state', only nothing"),
        ("state,move\na,b\n", "line 1: there is no column 'action', only state, move"),
        ("state,action\n", "there is no line below the names of the columns"),
        ("state,action\na,\n", "line 2: a state or an action is missing"),
        ("state,action,probability\na,b,much\n", "line 2: probability is 'much', expected a number"),
        ("state,action,probability\na,b,2\n", "line 2: probability is 2.0, expected a number from 0 to 1"),
        ("state,action,probability\na,b,nan\n", "line 2: probability is nan"),
        ("state,action,probability\na,b,0.5\na,b,0.5\n", "line 3: action 'b' of state 'a' is there twice"),
        ("state,action,probability\na,b,0.5\n", "state a: it sums to 0.5"),
        ("policy,weight,state,action\n1,0.5,a,b\n1,0.6,a,c\n", "line 3: policy '1' has two weights"),
        ("policy,weight,state,action\n1,0.5,a,b\n2,0.6,a,c\n", "weights are [0.5, 0.6]"),
        ('state,action\na,"b\n', "line 2: unexpected end of data"),
    ],
)  # fmt: skip
def test_mistakes_in_tables_are_named_by_line(tmp_path, text, complaint):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises((fm.FormatError, fm.ProblemError)) as said:
        fm.Policy.load(path)
    assert complaint in str(said.value) and str(said.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "there is no field fairmdp_policy"),
        ('{"fairmdp_policy": 9}', "this is format 9, expected 1"),
        ('{"fairmdp_policy": 1, "policies": []}', "expected a list with at least one policy"),
        ('{"fairmdp_policy": 1, "policies": [{"weight": 1}]}', "policies[0]: expected an object with weight and states"),
        ('{"fairmdp_policy": 1, "policies": [{"weight": 1, "states": {"a": {}}}]}', "policies[0].states.a: expected"),
        ('{"fairmdp_policy": 1, "policies": [{"weight": 1, "states": {"a": {"b": true}}}]}', "states.a.b is True"),
        ('{"fairmdp_policy": 1, "policies": [{"weight": 1, "states": {"a": {"b": 1}, "a": {"b": 1}}}]}', "'a'"),
        ("{", "not valid JSON"),
    ],
)  # fmt: skip
def test_mistakes_in_json_are_named_by_field(tmp_path, text, complaint):
    path = tmp_path / "p.json"
    path.write_text(text)
    with pytest.raises(fm.FormatError) as said:
        fm.Policy.load(path)
    assert complaint.replace("'", '"') in str(said.value).replace("'", '"')


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"ward_a": "share"}, "does not say what to do in state ward_b\n  1 of 2 states is missing"),
        ({"ward_c": "share"}, "no state called 'ward_c'; did you mean 'ward_b'? there are ward_a, ward_b"),
        ({"ward_a": "rest", "ward_b": "rest"}, "ward_a has no action called 'rest'; there are share, keep"),
        ({"ward_a": {"share": 0.5}, "ward_b": "rest"}, "state ward_a: it sums to 0.5"),
        ({"ward_a": {"share": "x"}, "ward_b": "rest"}, "action 'share' of state ward_a 'x', expected a probability"),
        ({"ward_a": "share", 0: "keep", "ward_b": "rest"}, "names state ward_a twice"),
        ([0.5, 0.5], "policy has shape (2,), expected (3,)"),
        (lambda state: None, "the policy, asked for state ward_a, returned None"),
    ],
)  # fmt: skip
def test_mistakes_in_policies_are_named(given, complaint):
    with pytest.raises(fm.ProblemError) as said:
        fm.Policy.of(WARDS, given)
    assert complaint in str(said.value)


def test_a_policy_of_other_names_is_refused():
    other = fm.MDP(MDP.P, MDP.r, MDP.s_of, states=["ward_a", "ward_c"], actions=MDP.actions)
    with pytest.raises(fm.ProblemError, match="no state called 'ward_c'"):
        fm.Policy.of(MDP, fm.Policy.of(other, [1.0, 0.0, 1.0]))


def test_mixtures_are_drawn_once(tmp_path):
    stay, go = fm.Policy.of(MDP, [1.0, 0, 1]), fm.Policy.of(MDP, [0, 1.0, 1])
    mixed = fm.Policy.mixture([stay, go, fm.Policy.mixture([stay, go], [0.5, 0.5])], [0.2, 0.4, 0.4])
    assert mixed.weights.tolist() == [0.2, 0.4, 0.2, 0.2] and "a mixture of 4" in repr(mixed)
    rng = np.random.default_rng(3)
    drawn = [mixed.draw(rng) for _ in range(4000)]
    assert all(not policy.is_mixture for policy in drawn)
    shares = np.mean([policy.probabilities("ward_a") == {"share": 1.0} for policy in drawn])
    assert abs(shares - 0.4) < 5 * np.sqrt(0.25 / 4000)
    for ask in (lambda: mixed.act("ward_a", rng), lambda: mixed.probabilities(0), lambda: mixed.array):
        with pytest.raises(fm.ProblemError, match=r"(?s)a mixture of 4.*policy.draw\(rng\)"):
            ask()
    for name in ("m.json", "m.csv"):
        mixed.save(tmp_path / name)
        again = fm.Policy.load(tmp_path / name)
        assert again.weights.tolist() == mixed.weights.tolist() and (again.parts == mixed.parts).all()
    for weights in ([0.5], [0.5, 0.6], [1.5, -0.5]):
        with pytest.raises(fm.ProblemError, match="weights"):
            fm.Policy.mixture([stay, go], weights)


def test_what_is_no_generator_is_refused():
    with pytest.raises(fm.ProblemError, match=r"rng is 0, expected a generator"):
        fm.Policy.of(MDP, MIXED).act(0, 0)


def test_states_that_are_none_are_named():
    policy, rng = fm.Policy.of(MDP, MIXED), np.random.default_rng(0)
    for state, complaint in (
        ("ward_z", "ward_z"),
        (7, "there is no state 7"),
        ([0, -1], "no state -1"),
        ([0.5], "float64"),
    ):
        with pytest.raises(fm.ProblemError, match=complaint):
            policy.act(state, rng)


def test_solution_files_carry_names(tmp_path):
    solution = fm.solve(WARDS)
    solution.save(tmp_path / "s.json")
    assert fm.Solution.load(tmp_path / "s.json").labels == solution.labels
    policy = fm.Policy.load(tmp_path / "s.json")
    assert (
        policy.probabilities("ward_b") == {"rest": 1.0} and policy.array.tolist() == solution.policy.tolist()
    )
    raw = json.loads((tmp_path / "s.json").read_text())
    assert raw["names"] == {
        "states": ["ward_a", "ward_b"],
        "actions": ["share", "keep", "rest"],
        "n_actions": [2, 1],
    }
    nameless = {name: value for name, value in raw.items() if name != "names"}
    (tmp_path / "old.json").write_text(json.dumps(nameless))
    old = fm.Solution.load(tmp_path / "old.json")
    assert old.labels is None and fm.verify(WARDS, old).ok
    assert fm.Policy.of(WARDS, old).array.tolist() == solution.policy.tolist()
    with pytest.raises(fm.FormatError, match="does not name its states"):
        fm.Policy.load(tmp_path / "old.json")
    for names, complaint in (
        ({**raw["names"], "states": ["ward_a"]}, "names.states: expected 2 names, got 1"),
        ({**raw["names"], "states": ["x", "x"]}, "names.states: a name is there twice"),
        ({**raw["names"], "actions": ["x", "x", "y"]}, "names.actions: a name is there twice"),
        ({**raw["names"], "n_actions": [1, 1]}, "names.n_actions: expected 2 numbers that sum to 3"),
        ({**raw["names"], "n_actions": [3, 0]}, "names.n_actions[1]: expected how many actions"),
    ):  # fmt: skip
        (tmp_path / "bad.json").write_text(json.dumps(raw | {"names": names}))
        with pytest.raises(fm.FormatError) as said:
            fm.Solution.load(tmp_path / "bad.json")
        assert complaint in str(said.value)


def test_a_solution_that_swaps_names_is_not_confirmed():
    solution = fm.solve(WARDS)
    swapped = replace(solution, labels=replace(solution.labels, states=("ward_b", "ward_a")))
    assert fm.verify(WARDS, solution).ok
    assert "not the names of the problem's" in fm.verify(WARDS, swapped).messages[0]


def test_an_infeasible_solution_has_no_policy(tmp_path):
    fm.solve(fm.scenarios.three_state([0.1, 0.1, 0.6])).save(tmp_path / "s.json")
    with pytest.raises(fm.ProblemError, match="there is no policy in it: no policy meets the quotas"):
        fm.Policy.load(tmp_path / "s.json")
