"""The claims by the functions that decide them, for tests that try each function."""

import sys

from companion.claims.registry import Claim, all_claims


def claims_by_function() -> dict[str, list[Claim]]:
    """By `module.name` below `companion.claims.evidence`: the claims that the function decides."""
    claims: dict[str, list[Claim]] = {}
    for claim in all_claims():
        module = sys.modules[claim.source.partition(".py:")[0].replace("/", ".")]
        name = next(name for name, value in vars(module).items() if value is claim.decide)
        claims.setdefault(f"{module.__name__.rpartition('.')[2]}.{name}", []).append(claim)
    return claims
