"""The area service: links of a box, by many clients at one time, and folders listed by a pool."""
