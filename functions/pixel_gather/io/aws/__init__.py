"""Step Functions, CloudWatch and their errors."""
