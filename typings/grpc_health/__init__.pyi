"""Types of the health service are not checked: `aio` is hidden behind a check of the version."""
