"""Tests of gg-datalog: see README.md."""
