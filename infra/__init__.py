"""What Pixel Gather is on AWS: one stack, a construct per capability."""
