"""How much is asked of one back end at a time, found out by asking: no number for anybody to choose."""
