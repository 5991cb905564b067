"""What tables of images and features are made of: features, pairs, lines, and what is computed of pixels."""
