"""The public names of the package."""

import inspect

import headrace.sdk as sdk
from headrace.sdk import _errors


def test_every_promised_name_exists_and_is_documented():
    for name in sdk.__all__:
        value = getattr(sdk, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
            # The root of all errors is every distribution's.
            assert value.__module__.startswith(("headrace.sdk.", "headrace.contract."))


def test_every_error_has_the_one_root_and_is_exported():
    errors = [e for _, e in inspect.getmembers(_errors, inspect.isclass)]
    assert all(issubclass(error, sdk.HeadraceError) for error in errors)
    assert {error.__name__ for error in errors} <= set(sdk.__all__)


def test_the_picture_of_the_errors_is_whole():
    for _, error in inspect.getmembers(_errors, inspect.isclass):
        assert error.__name__ in _errors.__doc__
