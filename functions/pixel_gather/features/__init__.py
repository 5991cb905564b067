"""What users ask for, a room for each: its function, its rules, and what it alone reads and writes."""
