"""Entry points of the Lambda functions: decode, run, log one line, encode.

No rule of the domain lives here. Modules with a ``handler`` do their work at import, once per cold start.
"""
