"""The demos, benchmarks, soak and chaos tests of Headrace. A production installation does not need them."""
