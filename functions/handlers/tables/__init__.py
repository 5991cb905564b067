"""The functions of tables: rankings, points and zones as kinds of one job on one workflow."""
