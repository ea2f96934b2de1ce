"""The page on dbt's own suites is what the test modules say."""

from __future__ import annotations

from tests.adapter import suites


def test_every_class_of_the_package_runs_or_has_a_reason_not_to() -> None:
    assert suites.unexplained() == []


def test_the_page_is_what_the_modules_say() -> None:
    assert suites.PAGE.read_text() == suites.document(), "write it anew: python -m tests.adapter.suites"


def test_modules_lie_in_the_folders_of_the_classes_that_they_run() -> None:
    astray = [run for suite in suites.suites() for run in suite.runs if run.__module__.split(".")[2] != suite.folder]
    assert astray == []


def test_a_test_in_a_form_of_its_own_says_why() -> None:
    own = [getattr(run, test) for suite in suites.suites() for test in suites.own_tests(suite) for run in suite.runs]
    assert [test for test in own if not test.__doc__] == []
