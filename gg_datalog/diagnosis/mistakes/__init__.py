"""The mistakes, one in each module: its page, what is looked up, when it is found, and the words.

:mod:`gg_datalog.diagnosis.order` says in which order they are looked for.
"""
