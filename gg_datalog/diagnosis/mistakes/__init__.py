"""The mistakes, one in each module: its page, what is looked up, when it is found, and the words.

To add one:

1. a module here, named by its code: ``MISTAKE``, with an example, and a function that looks for it
   at one of the places of :mod:`gg_datalog.diagnosis.sites`, or in all of a result;
2. its function in the tuple of :mod:`gg_datalog.diagnosis.order` for that kind of place, before
   whatever it explains better;
3. ``make docs``, for its page in the book.

The tests run the example, and complain of a module whose function nothing calls.
"""
