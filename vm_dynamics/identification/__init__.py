# SPDX-License-Identifier: Apache-2.0
"""What a robot carries and how its joints rub, from the way it moves."""
