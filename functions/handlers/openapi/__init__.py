"""The description of the API, made from the features. No function loads it."""
