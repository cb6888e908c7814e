"""Audits: many pairs, each checked in a process of its own, in one table (docs/audit.md)."""
