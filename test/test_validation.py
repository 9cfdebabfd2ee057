# SPDX-License-Identifier: Apache-2.0
"""The validation table: every quantity against Pinocchio or differences, on every robot."""

import pytest
from cases import ALL, GROUPS
from validation import _ROWS, errors_of


@pytest.mark.parametrize("base", GROUPS)
@pytest.mark.parametrize("name", ALL)
def test_every_quantity_agrees_with_the_reference(name, base):
    over = {k: e for k, e in errors_of(name, base).items() if not e <= _ROWS[k][2]}
    assert not over
