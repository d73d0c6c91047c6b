"""Blocks of factors under one another."""

import torch
from registry import CASES, FAILED
from truths.answer_probabilities import PAIR

from botorch_pref.feedback import Comparisons
from botorch_pref.likelihoods import PairwiseLogitLikelihood
from botorch_pref.likelihoods.factors import BoxFactors, JointFactors, joint_factors

SECOND_PAIR = torch.tensor([[2, 0]])


def test_joint_factors_are_their_blocks_one_under_another() -> None:
    utilities = torch.tensor([0.4, -1.2, 2.0], dtype=torch.float64)
    variance = torch.tensor([0.3, 0.6, 1.1, 2.0], dtype=torch.float64)
    probit = CASES["probit tie"].build()
    blocks = [
        probit.factors(Comparisons(torch.cat([PAIR, SECOND_PAIR]), PAIR), 3),
        CASES["valid"].build().factors(FAILED, 3),
    ]
    logit = PairwiseLogitLikelihood().double().factors(Comparisons(SECOND_PAIR), 3)
    boxes, mixed = (
        joint_factors(parts, groups_of=lambda *_: None)
        for parts in (blocks, [*blocks[:1], logit])
    )
    assert type(boxes) is BoxFactors
    assert type(mixed) is JointFactors
    assert joint_factors(blocks[1:]) is blocks[1]
    for joint, parts in ((boxes, blocks), (mixed, [blocks[0], logit])):
        z = torch.cat([part.rows.apply(utilities) for part in parts])
        torch.testing.assert_close(joint.rows.apply(utilities), z)
        alone = [part.log_prob(part.rows.apply(utilities)) for part in parts]
        for order, value in enumerate(joint.log_prob(z)):
            torch.testing.assert_close(value, torch.cat([a[order] for a in alone]))
        split = [z.split([3, 1]), variance.split([3, 1])]
        alone = [
            part.log_partition(*arguments)
            for part, *arguments in zip(parts, *split, strict=True)
        ]
        for order, value in enumerate(joint.log_partition(z, variance)):
            torch.testing.assert_close(value, torch.cat([a[order] for a in alone]))
