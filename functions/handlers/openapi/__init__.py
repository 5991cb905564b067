"""The routes of all features, and the description of the API that is made from them. No function loads it."""
