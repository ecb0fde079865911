"""Budgets: what samples cost, how many there will be, and which arms the money covers."""
