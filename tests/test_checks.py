import math

import numpy as np
import pytest

from leadout.checks import check_kind, check_number, check_one_of, check_truth, check_whole, whole
from leadout.errors import InputError


@pytest.mark.parametrize("value", [-1, 9, True, 2.0, "2", None, 10**400, np.int64(3)])
def test_what_is_no_whole_number_in_range_is_refused(value):
    with pytest.raises(InputError, match=r"^n is .*; it must be a whole number in 0\.\.8$"):
        check_whole("n", value, 0, 8)


def test_digits_are_a_whole_number_and_nothing_else_is():
    assert [whole(text) for text in ("0", "12", "007", "999999999")] == [0, 12, 7, 999_999_999]
    for text in ("", "-1", "1.0", "+2", " 3", "\u0663", "\u00b2", "9" * 10, "9" * 5000):
        assert whole(text) is None


def test_whole_numbers_in_range_pass_and_none_where_it_may():
    check_whole("n", 0, 0, 8)
    check_whole("n", 10**9, 0)
    check_whole("n", None, 0, optional=True)
    with pytest.raises(InputError, match="n is -1; it must be a whole number >= 0"):
        check_whole("n", -1, 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, 10**400, True, "1", None, [1.0]])
def test_what_is_no_finite_number_in_range_is_refused(value):
    with pytest.raises(InputError, match=r"^t is .{1,60}; it must be a number >= 0$"):
        check_number("t", value, 0.0, math.inf, "a number >= 0")


def test_numbers_in_range_pass():
    for value in (0, 1, 0.5, np.float64(2.0)):
        check_number("t", value, 0.0, math.inf, "a number >= 0")


def test_truth_values_and_words_are_checked():
    check_truth("on", False)
    check_one_of("mode", "a", ("a", "b"))
    with pytest.raises(InputError, match="on is 'off'; it must be True or False"):
        check_truth("on", "off")
    with pytest.raises(InputError, match="mode is 'c'; it must be one of a, b"):
        check_one_of("mode", "c", ("a", "b"))


def test_kinds_are_checked():
    check_kind("text", "a", str, "text")
    check_kind("text", None, (str, bytes), "text", optional=True)
    with pytest.raises(InputError, match=r"^text is 4; it must be text or None$"):
        check_kind("text", 4, str, "text", optional=True)
    with pytest.raises(InputError, match=r"^text is None; it must be text$"):
        check_kind("text", None, str, "text")
