"""What a gather will take: requests, bytes, seconds and dollars."""
