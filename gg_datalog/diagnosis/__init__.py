"""Findings: what the relations of a result say of the mistake behind them."""
