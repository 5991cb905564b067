"""Which way of reading suits an object, measured."""
