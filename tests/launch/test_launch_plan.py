from dataclasses import replace

import pytest
from plans import DRAFT, TARGET

from leadout.errors import InputError
from leadout.launch.plan import Plan, Serving


@pytest.mark.parametrize(
    ("options", "tensor", "pipeline"),
    [
        ({}, 1, 1),
        ({"n_gpus": 0}, 1, 1),
        ({"n_gpus": 4}, 4, 1),
        ({"n_gpus": 4, "pipeline_parallel": 2}, 2, 2),
        ({"n_gpus": 4, "tensor_parallel": 2}, 2, 2),
        ({"tensor_parallel": 2}, 2, 1),
        ({"n_gpus": 8, "n_nodes": 2, "head": "h"}, 8, 2),
        ({"n_gpus": 8, "n_nodes": 2, "head": "h", "tensor_parallel": 16}, 16, 1),
    ],
)
def test_layers_are_split_over_a_machine_and_grouped_over_machines(options, tensor, pipeline):
    serving = Serving(**options)
    assert (serving.n_tensor, serving.n_pipeline) == (tensor, pipeline)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": 70000}, r"port is 70000; it must be a whole number in 0\.\.65535"),
        ({"host": "a b"}, "host is 'a b'; it must be a name or an address"),
        ({"host": ""}, "host is ''"),
        ({"n_ctx": 4}, "n_ctx is 4"),
        ({"n_nodes": 2}, "give the address of the first machine with --head"),
        ({"n_nodes": 2, "head": "h"}, "say with --gpus how many"),
        ({"head": "h"}, "there is one machine only"),
        ({"node_rank": 1}, "node_rank is 1"),
        ({"n_gpus": 4, "tensor_parallel": 3}, "3 x pipeline parallel 1 is 3 workers, but there are 4 GPUs"),
        ({"executor": "slurm"}, "executor is 'slurm'; it must be one of mp, ray"),
    ],
)
def test_serving_that_cannot_be_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        Serving(**options)


def test_plan_has_a_draft_model_exactly_where_one_drafts():
    with pytest.raises(InputError, match="a draft model belongs to kind 'model'"):
        Plan(target=TARGET, kind="model")
    with pytest.raises(InputError, match="got 'ngram'"):
        Plan(target=TARGET, kind="ngram", draft=DRAFT)
    with pytest.raises(InputError, match=r"k is 65"):
        Plan(target=TARGET, kind="ngram", k=65)
    assert replace(Plan(target=TARGET), k=None).kind == "none"
